package io.lockd.client;

import java.util.ArrayList;
import java.util.List;

/** Reads addresses. */
final class Addresses {
    private static final int PORT = 7420;

    private Addresses() { }

    /**
     * Reads a list that is separated by commas. One without a port gets 7420. An IPv6 address with a port is in
     * brackets. What names a scheme of gRPC, as dns:///HOST:PORT, is left as it is.
     */
    static List<String> read(String list) {
        if (list.contains("://") || list.startsWith("dns:")) {
            return List.of(list); // commas may mean something to its resolver
        }
        List<String> out = new ArrayList<>();
        for (String text : list.split(",", -1)) {
            out.add(address(text.strip()));
        }
        return out;
    }

    private static String address(String text) {
        String host = text;
        String port = Integer.toString(PORT);
        int colon = text.lastIndexOf(':');
        boolean bareV6 = colon >= 0 && text.indexOf(':') != colon && !text.startsWith("[");
        if (bareV6) {
            host = "[" + text + "]";
        } else if (colon > text.lastIndexOf(']')) {
            host = text.substring(0, colon);
            port = text.substring(colon + 1);
        }
        if (host.isEmpty() || text.matches(".*[\\s/?#@].*") || !port.matches("\\d{1,5}") || Integer.parseInt(port) < 1
            || Integer.parseInt(port) > 65535) {
            throw new IllegalArgumentException("address \"" + text + "\": it is not HOST or HOST:PORT");
        }
        return host + ":" + port;
    }
}
