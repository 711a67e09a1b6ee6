BEGIN TRANSACTION;
CREATE TABLE agents (
	id INTEGER NOT NULL, 
	agent_id VARCHAR(128) NOT NULL, 
	cca VARCHAR(63) NOT NULL, 
	channel VARCHAR(63) NOT NULL, 
	state VARCHAR(63) NOT NULL, 
	error TEXT, 
	offered_digest VARCHAR(71), 
	offered_serial BIGINT NOT NULL, 
	effective_digest VARCHAR(71), 
	effective_serial BIGINT NOT NULL, 
	kernel_version VARCHAR(256), 
	module_version VARCHAR(256), 
	agent_version VARCHAR(256), 
	received_at DATETIME NOT NULL, 
	CONSTRAINT pk_agents PRIMARY KEY (id), 
	CONSTRAINT uq_agents_agent_id_cca UNIQUE (agent_id, cca)
);
INSERT INTO "agents" VALUES(1,'server-1','gr','champion','Incompatible','reading gr: ENOENT (the file is not there: the module is not loaded, or does not know this CCA)','sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37',4,NULL,0,'6.1.0-25-amd64',NULL,'0.1.0','2026-11-26 19:47:06.756107');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE channels (
	id INTEGER NOT NULL, 
	cca VARCHAR(63) NOT NULL, 
	name VARCHAR(63) NOT NULL, 
	serial BIGINT NOT NULL, 
	CONSTRAINT pk_channels PRIMARY KEY (id), 
	CONSTRAINT ck_channels_serial_grows CHECK (serial >= 0), 
	CONSTRAINT uq_channels_cca_name UNIQUE (cca, name)
);
INSERT INTO "channels" VALUES(1,'gr','champion',4);
INSERT INTO "channels" VALUES(2,'gr','canary',1);
CREATE TABLE deployments (
	id INTEGER NOT NULL, 
	channel_id INTEGER NOT NULL, 
	serial BIGINT NOT NULL, 
	digest VARCHAR(71) NOT NULL, 
	hold_back_permille INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	restores_serial BIGINT, 
	deployed_at DATETIME NOT NULL, urgent BOOLEAN DEFAULT 0 NOT NULL, idempotency_key VARCHAR(128), request_digest VARCHAR(71), 
	CONSTRAINT pk_deployments PRIMARY KEY (id), 
	CONSTRAINT ck_deployments_hold_back_share CHECK (hold_back_permille BETWEEN 0 AND 1000), 
	CONSTRAINT ck_deployments_serial_from_one CHECK (serial >= 1), 
	CONSTRAINT fk_deployments_channel_id FOREIGN KEY(channel_id) REFERENCES channels (id), 
	CONSTRAINT fk_deployments_digest FOREIGN KEY(digest) REFERENCES ensembles (digest), 
	CONSTRAINT uq_deployments_channel_id_serial UNIQUE (channel_id, serial)
);
INSERT INTO "deployments" VALUES(1,1,1,'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59',0,'first',NULL,'2026-11-26 19:47:06.242362',0,'key-1','sha256:2d6cb7a4bda9423fc4c267a35ca3b86abb5c4b60f27b50f2d54f7c1b862358dd');
INSERT INTO "deployments" VALUES(2,1,2,'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37',100,'zwölf µs',NULL,'2026-11-26 19:47:06.508004',1,NULL,NULL);
INSERT INTO "deployments" VALUES(3,1,3,'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59',0,'p95 rose',1,'2026-11-26 19:47:06.573781',1,NULL,NULL);
INSERT INTO "deployments" VALUES(4,1,4,'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37',0,'',NULL,'2026-11-26 19:47:06.644431',0,NULL,NULL);
INSERT INTO "deployments" VALUES(5,2,1,'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37',0,'',NULL,'2026-11-26 19:47:06.694067',0,NULL,NULL);
CREATE TABLE ensembles (
	id INTEGER NOT NULL, 
	digest VARCHAR(71) NOT NULL, 
	cca VARCHAR(63) NOT NULL, 
	n_states INTEGER NOT NULL, 
	n_classes INTEGER NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	published_at DATETIME NOT NULL, 
	CONSTRAINT pk_ensembles PRIMARY KEY (id), 
	CONSTRAINT uq_ensembles_digest UNIQUE (digest)
);
INSERT INTO "ensembles" VALUES(1,'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59','gr',4,2,629,'{"axes":[{"count":4,"name":"throughput_bytes_per_s","scale":"linear","step":125000}],"cca":"gr","classes":[{"percentile":95,"queueing_delay_us":50000},{"percentile":95,"queueing_delay_us":100000}],"columns":["bandwidth_window_us","adaptation_interval_us","delay_threshold_us"],"digest":"sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59","epoch_ms":30000,"epsilon_pct":25,"estimate_ms":250,"provenance":{"number":0},"rows":[[60000,3000,12000],[60000,3000,12001],[60000,3000,12002],[60000,3000,12003],[60000,3000,12004],[60000,3000,12005],[60000,3000,12006],[60000,3000,12007]],"schema":"ccatune-ensemble/1"}','2026-11-26 19:47:06.188244');
INSERT INTO "ensembles" VALUES(2,'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37','gr',4,2,629,'{"axes":[{"count":4,"name":"throughput_bytes_per_s","scale":"linear","step":125000}],"cca":"gr","classes":[{"percentile":95,"queueing_delay_us":50000},{"percentile":95,"queueing_delay_us":100000}],"columns":["bandwidth_window_us","adaptation_interval_us","delay_threshold_us"],"digest":"sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37","epoch_ms":30000,"epsilon_pct":25,"estimate_ms":250,"provenance":{"number":1},"rows":[[60000,3000,12000],[60000,3000,12001],[60000,3000,12002],[60000,3000,12003],[60000,3000,12004],[60000,3000,12005],[60000,3000,12006],[60000,3000,12007]],"schema":"ccatune-ensemble/1"}','2026-11-26 19:47:06.502385');
CREATE TABLE registry (
	id INTEGER NOT NULL, 
	name VARCHAR(63) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_registry PRIMARY KEY (id), 
	CONSTRAINT ck_registry_one_row CHECK (id = 1)
);
INSERT INTO "registry" VALUES(1,'lab','2026-11-26 19:47:06.104678');
CREATE INDEX ix_ensembles_cca ON ensembles (cca);
CREATE INDEX ix_deployments_digest ON deployments (digest);
CREATE UNIQUE INDEX ix_deployments_channel_id_idempotency_key ON deployments (channel_id, idempotency_key);
COMMIT;
