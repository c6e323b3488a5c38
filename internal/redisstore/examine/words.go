package examine

// What is looked at. Programs read these words: they are never renamed.
const (
	Reachable     = "REACHABLE"
	Latency       = "LATENCY"
	Clock         = "CLOCK"
	Policy        = "MAXMEMORY_POLICY"
	Memory        = "MEMORY"
	Persistence   = "PERSISTENCE"
	Replication   = "REPLICATION"
	OutputBuffer  = "PUBSUB_BUFFER"
	IdleTimeout   = "IDLE_TIMEOUT"
	Rights        = "RIGHTS"
	DataKey       = "DATA_KEY"
	ClusterState  = "CLUSTER_STATE"
	ClusterSlots  = "CLUSTER_SLOTS"
	SlotMigration = "SLOT_MIGRATION"
)
