package io.lockd.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** What a client knows of times by itself. */
class DeadlinesTest {
    private static final Hold.Key KEY = new Hold.Key("name", 1, "#1");

    private static Beats.Until told(long deadline) {
        return new Beats.Until(deadline, false);
    }

    private static Hold until(long deadline, long most) {
        return new Hold(KEY, told(deadline), most, true);
    }

    @Test
    void whoSawADeadlinePassIsRightForEver() {
        Hold h = until(100, 0);
        assertFalse(h.passed(99));
        assertTrue(h.passed(100));
        assertTrue(h.passed(50));
        assertFalse(h.raise(told(200), 99));
        assertTrue(h.passed(150));
        assertFalse(h.endedByMost());
    }

    @Test
    void aDeadlineMovesLaterOnly() {
        Hold h = until(100, 0);
        assertTrue(h.raise(told(200), 50));
        assertTrue(h.raise(told(150), 60));
        assertEquals(200, h.end());
        assertFalse(h.passed(199));
    }

    @Test
    void nothingIsLaterThanTheBoundOfAHold() {
        Hold h = until(100, 300);
        assertTrue(h.raise(told(1_000), 50));
        assertEquals(300, h.end());
        assertTrue(h.passed(300));
        assertTrue(h.endedByMost());
        assertEquals(300, until(1_000, 300).end());
        Hold sooner = until(100, 300);
        assertTrue(sooner.passed(100));
        assertFalse(sooner.endedByMost());
    }

    /** What its constructor takes has another name in the jar. */
    private static Call call() throws Exception {
        return (Call) Call.class.getDeclaredConstructors()[0].newInstance((Object) null);
    }

    /** What a server tells meanwhile it may have written before. */
    @Test
    void nothingMovesADeadlineThatIsBeingMadeEarlier() throws Exception {
        Hold h = until(1_000, 0);
        h.shortening = call();
        h.lower(200);
        assertTrue(h.raise(told(5_000), 100));
        assertEquals(200, h.end());
        h.lower(400);
        assertEquals(200, h.end());
        h.shortening = null;
        assertTrue(h.raise(told(5_000), 100));
        assertEquals(5_000, h.end());
    }

    @Test
    void whatIsNotKnownCountsFromTheOpening() {
        Beats b = new Beats(5);
        assertEquals(5, b.at(0));
        assertEquals(5, b.at(1));
        long first = b.next(10);
        long second = b.next(20);
        assertEquals(10, b.at(first));
        assertEquals(20, b.at(second));
        assertEquals(5, b.at(second + 1));
        assertEquals(5, b.at(-1));
        assertEquals(5, b.at(0));
        long last = second;
        for (int i = 0; i < 100; i++) {
            last = b.next(100 + i);
        }
        assertEquals(199, b.at(last));
        assertEquals(5, b.at(second)); // long ago
    }
}
