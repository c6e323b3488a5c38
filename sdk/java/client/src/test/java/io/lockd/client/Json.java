package io.lockd.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as the driver needs: maps, lists, texts, whole numbers, booleans and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> read(String text) {
        return (Map<String, Object>) new Json(text).value();
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    private Object value() {
        switch (next()) {
            case '{':
                return map();
            case '[':
                return list();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> map() {
        Map<String, Object> m = new LinkedHashMap<>();
        at++;
        while (next() != '}') {
            String key = string();
            next();
            at++; // the colon
            m.put(key, value());
            if (next() == ',') {
                at++;
                next();
            }
        }
        at++;
        return m;
    }

    private List<Object> list() {
        List<Object> l = new ArrayList<>();
        at++;
        while (next() != ']') {
            l.add(value());
            if (next() == ',') {
                at++;
            }
        }
        at++;
        return l;
    }

    private String string() {
        StringBuilder s = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c == '\\') {
                c = text.charAt(++at);
                int special = "bfnrt".indexOf(c);
                if (special >= 0) {
                    c = "\b\f\n\r\t".charAt(special);
                } else if (c == 'u') {
                    c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                    at += 4;
                }
            }
            s.append(c);
        }
        at++;
        return s.toString();
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && "+-.".indexOf(text.charAt(at)) >= 0 || at < text.length()
            && Character.isLetterOrDigit(text.charAt(at))) {
            at++;
        }
        String w = text.substring(begin, at);
        switch (w) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return (long) Double.parseDouble(w);
        }
    }

    static String write(Object v) {
        StringBuilder s = new StringBuilder();
        write(s, v);
        return s.toString();
    }

    private static void write(StringBuilder s, Object v) {
        if (v instanceof Map) {
            s.append('{');
            ((Map<?, ?>) v).forEach((key, of) -> {
                s.append(s.charAt(s.length() - 1) == '{' ? "" : ",");
                write(s, key);
                s.append(':');
                write(s, of);
            });
            s.append('}');
        } else if (v instanceof List) {
            s.append('[');
            for (Object of : (List<?>) v) {
                s.append(s.charAt(s.length() - 1) == '[' ? "" : ",");
                write(s, of);
            }
            s.append(']');
        } else if (v instanceof String) {
            s.append('"');
            for (char c : ((String) v).toCharArray()) {
                if (c == '"' || c == '\\') {
                    s.append('\\').append(c);
                } else if (c < ' ') {
                    s.append(String.format("\\u%04x", (int) c));
                } else {
                    s.append(c);
                }
            }
            s.append('"');
        } else {
            s.append(v);
        }
    }
}
