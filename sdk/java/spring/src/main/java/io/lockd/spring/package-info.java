/** lockd in Spring: a lock registry, and what Spring Boot configures. */
package io.lockd.spring;
