package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// Load builds the Config from, lowest first, the defaults, the file that args name, env ("KEY=value", as os.Environ
// gives it) and args. Its error joins everything that is wrong.
func Load(args Args, env []string) (Config, error) {
	var file []byte
	if args.File != "" || args.Check {
		b, err := os.ReadFile(args.File)
		if err != nil {
			return Config{}, fmt.Errorf("read the configuration: %w", err)
		}
		file = b
	}
	return load(file, env, args.set)
}

func load(file []byte, env []string, flags map[string]any) (Config, error) {
	v := viper.New()
	defaults := flatten(Default())
	for key, value := range defaults {
		v.SetDefault(key, value)
	}
	var findings []error
	findings = append(findings, readFile(v, file, defaults)...)
	findings = append(findings, readEnv(v, env, defaults)...)
	for key, value := range flags {
		v.Set(key, value)
	}
	// A value that cannot be read leaves its default, so that Validate does not find it a second time.
	c := Default()
	findings = append(findings, undecoded(v.Unmarshal(&c, strictly)), c.Validate())
	if err := errors.Join(findings...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// readFile merges a YAML file and returns what is wrong with it.
func readFile(v *viper.Viper, file []byte, known map[string]any) []error {
	own := viper.New()
	own.SetConfigType("yaml")
	if err := own.ReadConfig(bytes.NewReader(file)); err != nil {
		return []error{fmt.Errorf("read the configuration: %w", err)}
	}
	var findings []error
	for _, key := range slices.Sorted(slices.Values(own.AllKeys())) {
		if _, ok := known[key]; ok {
			v.Set(key, own.Get(key))
			continue
		}
		findings = append(findings, finding(key, "there is no such key"))
	}
	return findings
}

// readEnv sets the keys that variables name and returns one finding for each variable it does not know. An empty
// variable is as good as none.
func readEnv(v *viper.Viper, env []string, known map[string]any) []error {
	keys := map[string]string{}
	for key := range maps.Keys(known) {
		keys[EnvName(key)] = key
	}
	var findings []error
	for _, pair := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" {
			continue
		}
		if key, ok := keys[name]; ok {
			v.Set(key, value)
		} else if !foreign(name) {
			findings = append(findings, finding(name, "there is no such key, so no such variable"))
		}
	}
	return findings
}

// ofLockctl are the variables of lockctl and of the programs it starts.
var ofLockctl = []string{"LOCKD_ADDR", "LOCKD_ADMIN_ADDR", "LOCKD_NAME", "LOCKD_FENCE", "LOCKD_NAMES", "LOCKD_FENCES"}

// ofKubernetes are the variables that Kubernetes gives to every pod beside a Service called lockd or lockd-something.
var ofKubernetes = regexp.MustCompile(
	`^LOCKD_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// foreign says whether a variable begins like lockd's but has another purpose.
func foreign(name string) bool {
	return slices.Contains(ofLockctl, name) || ofKubernetes.MatchString(name)
}

// strictly makes viper refuse what it would otherwise bend into shape.
func strictly(dc *mapstructure.DecoderConfig) {
	dc.WeaklyTypedInput = false
	dc.DecodeHook = decode
}

var durationType = reflect.TypeFor[time.Duration]()

// decode reads the strings of variables, and refuses a duration without a unit: the file's "ttl: 30" would be 30 ns.
func decode(from, to reflect.Type, data any) (any, error) {
	if from == to {
		return data, nil
	}
	text, _ := data.(string) // what is no text is read as "", which is none of these
	switch {
	case to == durationType:
		d, err := time.ParseDuration(text)
		return d, mustBe("a duration with its unit, like 30s", err)
	case to.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		return n, mustBe("a whole number", err)
	case to.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		return b, mustBe("true or false", err)
	}
	return data, nil
}

// mustBe says what a value should have been that could not be read.
func mustBe(want string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New("must be " + want)
}

// undecoded gives the decoder's errors the form of the other findings.
func undecoded(err error) error {
	switch e := err.(type) { //nolint:errorlint // walks down a tree of errors, one level at a time
	case *mapstructure.DecodeError:
		return finding(e.Name(), "%v", e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, undecoded(one))
		}
		return errors.Join(all...)
	case interface{ Unwrap() error }:
		return undecoded(e.Unwrap())
	}
	return err
}

func finding(key, format string, args ...any) error {
	return fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...))
}
