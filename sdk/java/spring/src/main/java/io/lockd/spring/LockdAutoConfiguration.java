package io.lockd.spring;

import io.lockd.client.LockdClient;
import io.lockd.client.LockdClientBuilder;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Configures a {@link LockdClient} from {@link LockdProperties}, which is closed with the context, a
 * {@link LockdLockRegistry} if Spring Integration is there, and the health of lockd if Boot's health is. A bean of the
 * program's own takes the place of each.
 */
@AutoConfiguration
@EnableConfigurationProperties(LockdProperties.class)
public class LockdAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    LockdConnection lockdConnection() {
        return new LockdConnection();
    }

    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LockdClient lockdClient(LockdProperties p, LockdConnection connection, Environment environment) {
        LockdClientBuilder b = LockdClient.builder(String.join(",", p.addresses())).labels(p.labels());
        PropertyMapper map = PropertyMapper.get();
        String program = environment.getProperty("spring.application.name");
        map.from(p.clientName() == null ? program : p.clientName()).to(b::name);
        map.from(p.adminAddress()).to(b::adminAddress);
        map.from(p.sessionTtl()).to(b::sessionTtl);
        map.from(p.answerTimeout()).to(b::answerTimeout);
        map.from(p.connectWait()).to(b::connectWait);
        map.from(p.tokenFile()).to(b::tokenFile);
        if (p.releaseOnDisconnect()) {
            b.releaseOnDisconnect();
        }
        if (p.failOnDeadlock()) {
            b.failOnDeadlock();
        }
        tls(p.tls(), b);
        return b.onStatus(connection::told).build();
    }

    private static void tls(LockdProperties.Tls p, LockdClientBuilder b) {
        if (p.enabled()) {
            b.tls();
        }
        PropertyMapper map = PropertyMapper.get();
        map.from(p.caFile()).to(b::trust);
        map.from(p.serverName()).to(b::serverName);
        map.from(p.certFile()).to(file -> b.certificate(file, p.keyFile()));
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(LockRegistry.class)
    static class Registry {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        LockdLockRegistry lockdLockRegistry(LockdClient client, LockdProperties p) {
            return new LockdLockRegistry(client, p.registryPrefix());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(HealthIndicator.class)
    @ConditionalOnEnabledHealthIndicator("lockd")
    static class Health {
        @Bean
        @ConditionalOnMissingBean(name = "lockdHealthIndicator")
        HealthIndicator lockdHealthIndicator(LockdClient client, LockdConnection connection) {
            return new LockdHealthIndicator(connection, client).connect();
        }
    }
}
