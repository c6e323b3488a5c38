import io.lockd.client.Held;
import io.lockd.client.LockdClient;
import java.time.Duration;

/** Works on an order while nobody else does. LOCKD_ADDR is the address of lockd. */
public final class Orders {
    private Orders() { }

    public static void main(String[] args) throws Exception {
        String address = System.getenv().getOrDefault("LOCKD_ADDR", "127.0.0.1:7420");
        Thread worker = Thread.currentThread();
        try (LockdClient client = LockdClient.builder(address).name("orders").build();
            Held held = client.lock("orders/42").waitUpTo(Duration.ofSeconds(5)).acquire()) {
            held.onLost(lost -> worker.interrupt()); // ends the work below
            System.out.println("locked with fence " + held.fence());
            for (int step = 1; step <= 3; step++) {
                Thread.sleep(1000); // the work
                held.check();
                System.out.println("step " + step + ", surely held for " + held.remaining().toMillis() + " ms more");
            }
        }
        System.out.println("released");
    }
}
