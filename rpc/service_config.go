package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc/codes"
)

// ErrServiceConfig is wrapped by every error in a service config, the caller's or a resolver's.
var ErrServiceConfig = errors.New("rpc: bad service config")

// serviceConfig is what calls use of a service config: its balance.Config's Calls.
type serviceConfig struct {
	methods  map[string]*methodConfig // by "/service/method", "/service/" or ""
	throttle *throttle
	selector *selector // decides for each call; nil: none
}

// callsOf returns what calls use of a service config.
func callsOf(c *balance.Config) *serviceConfig { return c.Calls.(*serviceConfig) }

// methodConfig holds the settings of some methods.
type methodConfig struct {
	waitForReady *bool
	timeout      *time.Duration // nil: none
	maxSend      int            // -1: none
	maxRecv      int            // -1: none
	retry        *RetryPolicy
	hedging      *HedgingPolicy // at most one of the two
}

// find returns the settings of a method; nil when there are none.
func (c *serviceConfig) find(method string) *methodConfig {
	if len(c.methods) == 0 {
		return nil
	}
	if m := c.methods[method]; m != nil {
		return m
	}
	if i := strings.LastIndexByte(method, '/'); i >= 0 {
		if m := c.methods[method[:i+1]]; m != nil {
			return m
		}
	}
	return c.methods[""]
}

// The JSON of a service config, as grpc's service_config.proto maps to it.
type (
	jsonConfig struct {
		Balancers  *json.RawMessage `json:"loadBalancingConfig"`
		Balancer   *string          `json:"loadBalancingPolicy"`
		Methods    []jsonMethods    `json:"methodConfig"`
		Throttling *jsonThrottling  `json:"retryThrottling"`
		Health     *jsonHealth      `json:"healthCheckConfig"`
	}
	jsonMethods struct {
		Name         []jsonName    `json:"name"`
		WaitForReady *bool         `json:"waitForReady"`
		Timeout      *jsonDuration `json:"timeout"`
		MaxRequest   *int64        `json:"maxRequestMessageBytes"`
		MaxResponse  *int64        `json:"maxResponseMessageBytes"`
		Retry        *jsonRetry    `json:"retryPolicy"`
		Hedging      *jsonHedging  `json:"hedgingPolicy"`
	}
	jsonName struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	jsonRetry struct {
		MaxAttempts    int          `json:"maxAttempts"`
		InitialBackoff jsonDuration `json:"initialBackoff"`
		MaxBackoff     jsonDuration `json:"maxBackoff"`
		Multiplier     float64      `json:"backoffMultiplier"`
		Codes          []codes.Code `json:"retryableStatusCodes"`
	}
	jsonHedging struct {
		MaxAttempts int          `json:"maxAttempts"`
		Delay       jsonDuration `json:"hedgingDelay"`
		NonFatal    []codes.Code `json:"nonFatalStatusCodes"`
	}
	jsonThrottling struct {
		MaxTokens  float64 `json:"maxTokens"`
		TokenRatio float64 `json:"tokenRatio"`
	}
	jsonHealth struct {
		ServiceName *string `json:"serviceName"`
	}
	jsonDuration time.Duration
)

// UnmarshalJSON parses seconds, with a fraction of at most nine digits, followed by "s" (protobuf's JSON
// mapping of Duration). As in grpc-go the digits on one side of the point may be missing: ".01s", "1.s".
func (d *jsonDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	number, ok := strings.CutSuffix(s, "s")
	whole, fraction, _ := strings.Cut(number, ".")
	if !ok || !digits(whole+fraction) || len(fraction) > 9 {
		return fmt.Errorf("malformed duration %q", s)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q is out of range", s)
	}
	*d = jsonDuration(v)
	return nil
}

// digits reports whether s is one or more decimal digits.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// defaultServiceConfig is that of WithDefaultServiceConfig, or an empty one.
func defaultServiceConfig(o *dialOptions) (*balance.Config, error) {
	if o.serviceConfig == nil {
		return parseServiceConfig("{}", balance.Strict)
	}
	return parseServiceConfig(*o.serviceConfig, balance.Strict)
}

func parseServiceConfig(text string, how balance.Strictness) (*balance.Config, error) {
	if text == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrServiceConfig)
	}
	calls := &serviceConfig{methods: map[string]*methodConfig{}}
	out := &balance.Config{Text: text, Calls: calls}
	var js jsonConfig
	err := decodeConfig(text, &js, how)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
	}
	if out.Policy, err = balance.ParsePolicy(js.Balancers, js.Balancer, how); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
	}
	for _, m := range js.Methods {
		if err := calls.addMethods(m); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
		}
	}
	if t := js.Throttling; t != nil {
		if t.MaxTokens <= 0 || t.MaxTokens > 1000 || t.TokenRatio <= 0 {
			return nil, fmt.Errorf("%w: retryThrottling %+v is out of range", ErrServiceConfig, *t)
		}
		calls.throttle = newThrottle(t.MaxTokens, t.TokenRatio)
	}
	if js.Health != nil {
		name := ""
		if js.Health.ServiceName != nil {
			name = *js.Health.ServiceName
		}
		out.Health = &name
	}
	return out, nil
}

// decodeConfig parses one JSON object, which nothing may follow.
func decodeConfig(text string, js *jsonConfig, how balance.Strictness) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(js)
	if err != nil && how == balance.Lenient && strings.Contains(err.Error(), "unknown field") {
		logger.Warningf("service config of the resolver: %v: it is not used", err)
		*js = jsonConfig{}
		dec = json.NewDecoder(strings.NewReader(text))
		err = dec.Decode(js)
	}
	if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data follows the JSON object")
	}
	return nil
}

func (c *serviceConfig) addMethods(m jsonMethods) error {
	mc := &methodConfig{waitForReady: m.WaitForReady, timeout: (*time.Duration)(m.Timeout), maxSend: -1, maxRecv: -1}
	var err error
	if mc.maxSend, err = messageLimit("maxRequestMessageBytes", m.MaxRequest); err != nil {
		return err
	}
	if mc.maxRecv, err = messageLimit("maxResponseMessageBytes", m.MaxResponse); err != nil {
		return err
	}
	if r := m.Retry; r != nil {
		p := RetryPolicy{MaxAttempts: r.MaxAttempts, InitialBackoff: time.Duration(r.InitialBackoff),
			MaxBackoff: time.Duration(r.MaxBackoff), BackoffMultiplier: r.Multiplier, RetryableStatusCodes: r.Codes}
		if err := p.check(); err != nil {
			return err
		}
		mc.retry = &p
	}
	if h := m.Hedging; h != nil {
		if mc.retry != nil {
			return errors.New("a method has both a retryPolicy and a hedgingPolicy")
		}
		p := HedgingPolicy{MaxAttempts: h.MaxAttempts, HedgingDelay: time.Duration(h.Delay), NonFatalStatusCodes: h.NonFatal}
		if err := p.check(); err != nil {
			return err
		}
		mc.hedging = &p
	}
	for _, n := range m.Name {
		key := ""
		switch {
		case n.Service != "":
			key = "/" + n.Service + "/" + n.Method
		case n.Method != "":
			return errors.New("a name has a method without a service")
		}
		if c.methods[key] != nil {
			return fmt.Errorf("%q is named twice", key)
		}
		c.methods[key] = mc
	}
	return nil
}

func messageLimit(field string, n *int64) (int, error) {
	if n == nil {
		return -1, nil
	}
	if *n < 0 {
		return 0, fmt.Errorf("%s is %d", field, *n)
	}
	return int(min(*n, math.MaxInt32)), nil
}

// limit applies the limits on messages: each lowers what an option has set, and replaces a default, which for responses
// may be lower.
func (m *methodConfig) limit(ci *callInfo) {
	if m.maxSend >= 0 {
		ci.maxSend = min(ci.maxSend, m.maxSend) // the default is the highest limit that there is
	}
	if m.maxRecv >= 0 && (!ci.recvSet || m.maxRecv < ci.maxRecv) {
		ci.maxRecv = m.maxRecv
	}
}
