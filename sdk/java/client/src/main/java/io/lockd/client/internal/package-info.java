/**
 * The engine of the client. It is no API: anything here may change.
 * <p>
 * All state belongs to one thread, the {@code Loop}: what a caller wants is posted to it, and it alone reads and writes
 * the network. Only the deadline and the end of a grant are read by any thread, at any time. From the outside inwards:
 * <ul>
 * <li>{@code Ask} is what somebody asked for, until it is answered, in whatever session there is;
 * <li>{@code Engine} keeps a session, and opens another one when that ends; {@code Connecting} makes the attempts;
 * <li>{@code Session} is what is held and asked; {@code Resume} moves it from a stream to another;
 * <li>{@code Stream} is one stream: handshake, heartbeats, frames;
 * <li>{@code Hold} and {@code Grant} are what was granted, with its deadline.
 * </ul>
 */
package io.lockd.client.internal;
