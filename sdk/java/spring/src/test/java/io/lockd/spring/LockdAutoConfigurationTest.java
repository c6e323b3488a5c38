package io.lockd.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.LockdClient;
import io.lockd.client.Status.State;
import io.lockd.client.testing.LockdForTests;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.integration.support.locks.DefaultLockRegistry;
import org.springframework.integration.support.locks.LockRegistry;

/** What a program of Spring Boot gets. */
class LockdAutoConfigurationTest {
    private static final Path PROGRAM = Path.of(System.getenv().getOrDefault("LOCKD_BIN", "lockd"));

    private LockdForTests lockd;

    @BeforeEach
    void start() {
        lockd = LockdForTests.start(PROGRAM);
    }

    @AfterEach
    void end() {
        lockd.close();
    }

    private static ApplicationContextRunner program(String addresses) {
        return new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LockdAutoConfiguration.class))
            .withPropertyValues("lockd.addresses=" + addresses, "spring.application.name=billing",
                "lockd.registry-prefix=spring/", "lockd.answer-timeout=20s");
    }

    private static void awaits(ApplicationContext context, Status wanted) throws InterruptedException {
        HealthIndicator health = context.getBean(HealthIndicator.class);
        LockdLockRegistryTest.until(() -> health.health().getStatus().equals(wanted));
    }

    @Test
    void aProgramHasARegistryWhichIsClosedWithIt() {
        program(lockd.address()).run(context -> {
            context.getBean(LockRegistry.class).obtain("a").lock();
            assertEquals("billing", context.getBean(LockdClient.class).look("spring/a").client());
        });
        try (LockdClient client = LockdClient.builder(lockd.address()).answerTimeout(Duration.ofSeconds(30)).build()) {
            assertFalse(client.look("spring/a").held());
        }
        program(lockd.address()).withPropertyValues("lockd.client-name=invoices").run(context -> {
            assertTrue(context.getBean(LockRegistry.class).obtain("a").tryLock());
            assertEquals("invoices", context.getBean(LockdClient.class).look("spring/a").client());
        });
    }

    @Test
    void healthIsThatOfTheConnection() {
        String address = lockd.address();
        program(address).run(context -> {
            awaits(context, Status.UP);
            atRisk(context, Duration.ofHours(1)); // of a session that is not the client's own
            awaits(context, Status.UP);
            atRisk(context, Duration.ZERO);
            awaits(context, Status.DOWN);
            lockd.close();
            awaits(context, Status.DOWN);
            lockd = LockdForTests.start(PROGRAM, Map.of("LOCKD_LISTEN", address));
            awaits(context, Status.UP);
        });
    }

    private static void atRisk(ApplicationContext context, Duration ttl) {
        context.getBean(LockdConnection.class)
            .told(new io.lockd.client.Status(State.AT_RISK, Duration.ofSeconds(9), "", "", ttl));
    }

    @Test
    void aProgramStartsWithoutLockd() throws Exception {
        try (ServerSocket silent = new ServerSocket(0)) {
            program("127.0.0.1:" + silent.getLocalPort()).run(context -> // and nobody waits for the answer timeout
                assertEquals(Status.UNKNOWN, context.getBean(HealthIndicator.class).health().getStatus()));
        }
        program("127.0.0.1:1").withPropertyValues("lockd.answer-timeout=200ms").run(context ->
            awaits(context, Status.DOWN));
        program("127.0.0.1:1").withPropertyValues("management.health.lockd.enabled=false").run(context ->
            assertTrue(context.getBeansOfType(HealthIndicator.class).isEmpty()));
        program("127.0.0.1:1").withPropertyValues("lockd.tls.ca-file=/nowhere").run(context ->
            assertNotNull(context.getStartupFailure()));
    }

    @Test
    void whatAProgramHasItselfIsUsed() {
        try (LockdClient mine = LockdClient.connect(lockd.address())) {
            program("127.0.0.1:1").withBean(LockdClient.class, () -> mine)
                .withBean(LockRegistry.class, DefaultLockRegistry::new).run(context -> {
                    assertEquals(mine, context.getBean(LockdClient.class));
                    assertThrows(Exception.class, () -> context.getBean(LockdLockRegistry.class));
                });
        }
        program(lockd.address()).withClassLoader(new FilteredClassLoader(LockRegistry.class, HealthIndicator.class))
            .run(context -> {
                assertFalse(context.getBean(LockdClient.class).look("a").held());
                assertFalse(context.containsBean("lockdLockRegistry") || context.containsBean("lockdHealthIndicator"));
            });
    }

    @Test
    void editorsKnowTheProperties() throws Exception {
        try (var in = LockdProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            String text = new String(in.readAllBytes());
            assertTrue(text.contains("lockd.client-name") && text.contains("for people who look at locks"), text);
        }
    }
}
