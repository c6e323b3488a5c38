package io.lockd.client.internal;

/** Checks texts of callers before they are sent. */
final class Texts {
    private Texts() { }

    /**
     * Judges a text by whether it can be written in UTF-8, and by its size there, of which 0 is no limit: null is well.
     */
    static Failure refused(String reason, String what, String text, int limit) {
        int bytes = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (!Character.isSurrogate(c)) {
                bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
            } else if (Character.isHighSurrogate(c) && i + 1 < text.length()
                && Character.isLowSurrogate(text.charAt(i + 1))) {
                bytes += 4;
                i++;
            } else {
                return Failure.invalid(reason, what + " cannot be written in UTF-8");
            }
        }
        if (limit > 0 && bytes > limit) {
            return Failure.invalid(reason, what + " has " + bytes + " bytes, the server allows " + limit);
        }
        return null;
    }
}
