package io.lockd.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockdClient;
import io.lockd.client.testing.LockdForTests;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.integration.support.locks.DistributedLock;

/** What a program of Spring Boot gets, and what Spring Integration documents of a lock registry. */
class LockdAutoConfigurationTest {
    private static LockdForTests lockd;

    @BeforeAll
    static void start() {
        lockd = LockdForTests.start(Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd")));
    }

    @AfterAll
    static void end() {
        lockd.close();
    }

    private static ApplicationContextRunner program(String addresses) {
        return new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LockdAutoConfiguration.class))
            .withPropertyValues("lockd.addresses=" + addresses, "spring.application.name=billing",
                "lockd.registry-prefix=spring/", "lockd.answer-timeout=20s");
    }

    private static <T> T elsewhere(Callable<T> task) throws Exception {
        FutureTask<T> f = new FutureTask<>(task);
        new Thread(f).start();
        return f.get(1, TimeUnit.MINUTES);
    }

    @Test
    void aProgramHasARegistryAndHealth() {
        program(lockd.address()).run(context -> {
            LockdLockRegistry registry = context.getBean(LockdLockRegistry.class);
            DistributedLock lock = registry.obtain("a");
            lock.lock();
            assertTrue(lock.tryLock());
            assertEquals("billing", context.getBean(LockdClient.class).look("spring/a").client());
            assertFalse(elsewhere(() -> registry.obtain("a").tryLock()).booleanValue());
            assertTrue(elsewhere(() -> registry.obtain("b").tryLock()).booleanValue());
            lock.unlock();
            registry.obtain("a").unlock(); // the same lock
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
            assertEquals("done", registry.executeLocked("a", () -> "done"));
            assertEquals(Status.UP, context.getBean(HealthIndicator.class).health().getStatus());
        });
    }

    @Test
    void aLockWithATtlEnds() {
        program(lockd.address()).run(context -> {
            LockdLockRegistry registry = context.getBean(LockdLockRegistry.class);
            DistributedLock lock = registry.obtain("ttl");
            assertTrue(lock.tryLock(Duration.ofSeconds(1), Duration.ofSeconds(1)));
            elsewhere(() -> {
                registry.obtain("ttl").lock(); // when that has ended
                return null;
            });
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
            assertThrows(TimeoutException.class, () -> registry.executeLocked("ttl", Duration.ofMillis(10), ()
                -> "never"));
        });
    }

    @Test
    void aServerThatIsGoneIsDownAndTheProgramStarts() {
        program("127.0.0.1:1").withPropertyValues("lockd.answer-timeout=200ms").run(context ->
            assertEquals(Status.DOWN, context.getBean(HealthIndicator.class).health().getStatus()));
        program("127.0.0.1:1").withPropertyValues("management.health.lockd.enabled=false").run(context ->
            assertTrue(context.getBeansOfType(HealthIndicator.class).isEmpty()));
    }
}
