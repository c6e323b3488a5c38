/** ShedLock on lockd. */
package io.lockd.shedlock;
