// Package cluster tests the image and the chart on a real Kubernetes, which test/cluster/cluster runs on this machine.
//
// Its tests run one after the other, with make test-cluster. Elsewhere they are skipped: there is no cluster. They
// leave nothing in a cluster that was up before.
//
// # What is checked
//
//   - The API server takes whatever the chart gives, and Pod Security lets it run.
//   - Wrong values fail at helm install with the name of the key.
//   - While pods are restarted, killed, evicted and scaled, no client loses a lock and no call fails: see
//     test/faultrun, whose clients run in a pod here.
//   - The commands of docs/deploy.md do what the page says.
package cluster
