package io.lockd.client.internal;

import com.google.protobuf.ByteString;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Checks texts of callers before they are sent. */
final class Texts {
    private Texts() { }

    /** Judges a text by its size in UTF-8, of which 0 is no limit, and by whether it has one: null is well. */
    static Failure refused(String reason, String what, String text, int limit) {
        int bytes = ByteString.copyFromUtf8(text).size();
        if (limit > 0 && bytes > limit) {
            return Failure.invalid(reason, what + " has " + bytes + " bytes, the server allows " + limit);
        }
        if (text.chars().anyMatch(c -> Character.isSurrogate((char) c)) && !encodable(text)) {
            return Failure.invalid(reason, what + " cannot be written in UTF-8");
        }
        return null;
    }

    private static boolean encodable(String text) {
        try {
            StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return true;
        } catch (CharacterCodingException e) {
            return false;
        }
    }
}
