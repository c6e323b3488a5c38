// Package alerts causes the faults that the alerts of deploy/prometheus are about, for real, and waits until a real
// Prometheus fires them. Nothing else may fire, nothing before the fault, and nothing after it. Then each query of each
// dashboard of deploy/grafana must have shown something. A run without faults must fire nothing.
//
// Minutes of alerts are seconds here: see faster. make test-alerts runs all of it, with -prometheus and -exporter;
// without these flags only the change to the rules is tested.
package alerts
