package com.example;

import io.lockd.client.LockdClient;
import io.lockd.shedlock.LockdLockProvider;
import java.time.Duration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** Writes an invoice under a lock, and has a task that one machine runs at a time. */
@SpringBootApplication
@EnableScheduling
@EnableSchedulerLock(defaultLockAtMostFor = "PT10M")
public class Invoices {
    /** The program. */
    public static void main(String[] args) {
        SpringApplication.run(Invoices.class, args);
    }

    /** The registry, the client and their health are there by themselves. */
    @Bean
    CommandLineRunner writesAnInvoice(LockRegistry<DistributedLock> locks) {
        return args -> locks.executeLocked("invoice/4711", Duration.ofSeconds(5), () ->
            System.out.println("this program writes invoice 4711, and no other one does"));
    }

    @Bean
    LockProvider lockProvider(LockdClient client) {
        return new LockdLockProvider(client, "tasks/");
    }

    /** Runs every five seconds, on whichever machine is the first. */
    @Scheduled(cron = "*/5 * * * * *")
    @SchedulerLock(name = "report", lockAtLeastFor = "PT3S")
    public void report() {
        System.out.println("this program reports, and no other one does");
    }
}
