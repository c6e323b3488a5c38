/** Help for tests of programs that use locks. */
package io.lockd.client.testing;
