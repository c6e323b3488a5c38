package io.lockd.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockd.client.internal.Beats.Until;
import org.junit.jupiter.api.Test;

/** Which limit made the deadline of a hold. Times are instants, in no unit. */
class HoldTest {
    private static final Hold.Key KEY = new Hold.Key("n", 1, "#1");

    private static Until by(long deadline) {
        return new Until(deadline, false);
    }

    /** It is told to last until the end of its max_hold by a message that was on its way for longer than the grant. */
    @Test
    void lastsUntilTheMaxHoldThatTheGrantTold() {
        Hold h = new Hold(KEY, by(30), 60, true);
        assertTrue(h.raise(new Until(57, true), 10));
        assertEquals(60, h.end());
        assertFalse(h.passed(59));
        assertTrue(h.passed(60) && h.endedByMost());
        assertEquals(60, new Hold(KEY, new Until(59, true), 60, true).end());
    }

    @Test
    void noDeadlineIsLaterThanMaxHold() {
        Hold h = new Hold(KEY, by(30), 60, true);
        assertTrue(h.raise(by(90), 10));
        assertTrue(h.passed(60) && h.endedByMost());
    }

    /** However little is missing: somebody was not heard, or did not answer. */
    @Test
    void anEarlierDeadlineIsNotThatOfMaxHold() {
        Hold h = new Hold(KEY, by(59), 60, true);
        assertTrue(h.passed(59));
        assertFalse(h.endedByMost());
    }

    /** A server that says so of a hold without max_hold gives it no more than it tells. */
    @Test
    void withoutMaxHoldTheDeadlineIsWhatIsTold() {
        Hold h = new Hold(KEY, new Until(30, true), 0, true);
        assertEquals(30, h.end());
        assertTrue(h.raise(new Until(40, true), 10));
        assertTrue(h.passed(40));
        assertFalse(h.endedByMost());
    }
}
