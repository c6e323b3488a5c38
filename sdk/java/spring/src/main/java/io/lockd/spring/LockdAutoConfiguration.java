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
 * Configures a {@link LockdClient} from {@link LockdProperties}, a {@link LockdLockRegistry} if Spring Integration is
 * there, and the health of lockd. A bean of the program's own takes the place of each.
 */
@AutoConfiguration
@EnableConfigurationProperties(LockdProperties.class)
public class LockdAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LockdClient lockdClient(LockdProperties p, Environment environment) {
        LockdClientBuilder b = LockdClient.builder(p.addresses());
        PropertyMapper map = PropertyMapper.get();
        map.from(p.name() == null ? environment.getProperty("spring.application.name") : p.name()).to(b::name);
        map.from(p.adminAddress()).to(b::adminAddress);
        map.from(p.sessionTtl()).to(b::sessionTtl);
        map.from(p.answerTimeout()).to(b::answerTimeout);
        map.from(p.tokenFile()).to(b::tokenFile);
        if (p.tls().enabled()) {
            b.tls();
        }
        map.from(p.tls().caFile()).to(b::trust);
        map.from(p.tls().serverName()).to(b::serverName);
        map.from(p.tls().certFile()).to(file -> b.certificate(file, p.tls().keyFile()));
        return b.build();
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
        HealthIndicator lockdHealthIndicator(LockdClient client) {
            return new LockdHealthIndicator(client);
        }
    }
}
