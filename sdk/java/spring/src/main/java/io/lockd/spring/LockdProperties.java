package io.lockd.spring;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code lockd.*}. What is absent is the client's default.
 *
 * @param addresses where the replicas of lockd listen
 * @param adminAddress where operators connect, for forceUnlock
 * @param clientName which program this is, for people who look at locks; without it spring.application.name
 * @param labels more about this program
 * @param sessionTtl how long locks outlive the last sign of life of this program; without it what lockd gives
 * @param answerTimeout how long an answer of lockd is waited for
 * @param connectWait how long a request that waits waits for a connection; 0 is no bound of its own
 * @param releaseOnDisconnect release all locks when the connection breaks; they may have two holders for a moment
 * @param failOnDeadlock let the request that completes a deadlock fail
 * @param tokenFile a file with the token to show; it is read again when it has changed
 * @param tls TLS
 * @param registryPrefix what is put before the keys of the lock registry
 */
@ConfigurationProperties("lockd")
public record LockdProperties(@DefaultValue("127.0.0.1:7420") List<String> addresses, String adminAddress,
    String clientName, @DefaultValue Map<String, String> labels, Duration sessionTtl, Duration answerTimeout,
    Duration connectWait, @DefaultValue("false") boolean releaseOnDisconnect,
    @DefaultValue("false") boolean failOnDeadlock, String tokenFile, @DefaultValue Tls tls,
    @DefaultValue("") String registryPrefix) {

    /**
     * The properties {@code lockd.tls.*}. Files are PEM.
     *
     * @param enabled speak TLS; any of the others means that, too
     * @param caFile the authorities to trust, instead of those of the JDK
     * @param certFile the certificate of this client
     * @param keyFile its key, as PKCS 8
     * @param serverName the name expected in the certificate of lockd, instead of the host of the address
     */
    public record Tls(@DefaultValue("false") boolean enabled, String caFile, String certFile, String keyFile,
        String serverName) { }
}
