package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// scripts are lockd's own, read from where lockd embeds them.
type scripts struct{ acquire, release *redis.Script }

const scriptDir = "../internal/redisstore"

func readScripts() (scripts, error) {
	texts := map[string]string{}
	for _, name := range []string{"fence", "acquire", "release"} {
		b, err := os.ReadFile(filepath.Join(scriptDir, name+".lua"))
		if err != nil {
			return scripts{}, fmt.Errorf("read lockd's scripts: %w", err)
		}
		texts[name] = string(b)
	}
	return scripts{
		acquire: redis.NewScript(texts["fence"] + texts["acquire"]),
		release: redis.NewScript(texts["fence"] + texts["release"]),
	}, nil
}

// fenceMillis is lockd's default redis.fence_ttl.
const fenceMillis = 7 * 24 * 60 * 60 * 1000

// directly runs lockd's scripts without lockd. It does not wait: the name must be free.
func directly(dial dialer) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		sc, err := readScripts()
		if err != nil {
			return nil, err
		}
		c, closeIt, err := dial(e, callers)
		if err != nil {
			return nil, err
		}
		session := strings.ToLower(rand.Text())
		return funcs{closeFunc: closeIt, lockFunc: func(ctx context.Context, caller int, name string) (unlockFunc, error) {
			keys := []string{name, "redisson_lock_token:{" + name + "}", "redisson_lock__channel:{" + name + "}"}
			owner := fmt.Sprintf("%s:#%d", session, caller)
			got, err := sc.acquire.Run(ctx, c, keys[:2], owner, 1, leaseTTL.Milliseconds(), 0, fenceMillis).Int64Slice()
			if err != nil {
				return nil, err
			}
			if got[0] != 1 {
				return nil, fmt.Errorf("acquire %q: got %v", name, got)
			}
			return func(ctx context.Context) error {
				got, err := sc.release.Run(ctx, c, keys, owner, got[1], 0, "", 1, fenceMillis).Int64Slice()
				if err == nil && got[0] != 1 {
					return fmt.Errorf("release %q: got %v", name, got)
				}
				return err
			}, nil
		}}, nil
	}
}
