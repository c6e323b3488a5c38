package io.lockd.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code lockd.*}. What is absent is the client's default.
 *
 * @param addresses of the replicas, separated by commas
 * @param adminAddress for forceUnlock
 * @param name which program this is, for people; else spring.application.name
 * @param sessionTtl how long locks outlive the last sign of life
 * @param answerTimeout how long an answer is waited for
 * @param tokenFile a file with a token
 * @param tls files for TLS
 * @param registryPrefix what is put before the keys of the lock registry
 */
@ConfigurationProperties("lockd")
public record LockdProperties(@DefaultValue("127.0.0.1:7420") String addresses, String adminAddress, String name,
    Duration sessionTtl, Duration answerTimeout, String tokenFile, @DefaultValue Tls tls,
    @DefaultValue("") String registryPrefix) {

    /**
     * The properties {@code lockd.tls.*}. Files are PEM.
     *
     * @param enabled whether TLS is spoken; any of the others means that it is
     * @param caFile the authorities to trust, instead of those of the JDK
     * @param certFile this client's certificate
     * @param keyFile its key
     * @param serverName the name expected in the server's certificate
     */
    public record Tls(@DefaultValue("false") boolean enabled, String caFile, String certFile, String keyFile,
        String serverName) { }
}
