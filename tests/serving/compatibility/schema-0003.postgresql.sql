CREATE TABLE public.agents (
    id bigint NOT NULL,
    agent_id character varying(128) NOT NULL,
    cca character varying(63) NOT NULL,
    channel character varying(63) NOT NULL,
    state character varying(63) NOT NULL,
    error text,
    offered_digest character varying(71),
    offered_serial bigint NOT NULL,
    effective_digest character varying(71),
    effective_serial bigint NOT NULL,
    kernel_version character varying(256),
    module_version character varying(256),
    agent_version character varying(256),
    received_at timestamp with time zone NOT NULL
);
CREATE SEQUENCE public.agents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.agents_id_seq OWNED BY public.agents.id;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.channels (
    id bigint NOT NULL,
    cca character varying(63) NOT NULL,
    name character varying(63) NOT NULL,
    serial bigint NOT NULL,
    CONSTRAINT ck_channels_serial_grows CHECK ((serial >= 0))
);
CREATE SEQUENCE public.channels_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.channels_id_seq OWNED BY public.channels.id;
CREATE TABLE public.deployments (
    id bigint NOT NULL,
    channel_id bigint NOT NULL,
    serial bigint NOT NULL,
    digest character varying(71) NOT NULL,
    hold_back_permille integer NOT NULL,
    note text NOT NULL,
    restores_serial bigint,
    deployed_at timestamp with time zone NOT NULL,
    urgent boolean DEFAULT false NOT NULL,
    idempotency_key character varying(128),
    request_digest character varying(71),
    CONSTRAINT ck_deployments_hold_back_share CHECK (((hold_back_permille >= 0) AND (hold_back_permille <= 1000))),
    CONSTRAINT ck_deployments_serial_from_one CHECK ((serial >= 1))
);
CREATE SEQUENCE public.deployments_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.deployments_id_seq OWNED BY public.deployments.id;
CREATE TABLE public.ensembles (
    id bigint NOT NULL,
    digest character varying(71) NOT NULL,
    cca character varying(63) NOT NULL,
    n_states integer NOT NULL,
    n_classes integer NOT NULL,
    size_bytes integer NOT NULL,
    document text NOT NULL,
    published_at timestamp with time zone NOT NULL
);
CREATE SEQUENCE public.ensembles_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.ensembles_id_seq OWNED BY public.ensembles.id;
CREATE TABLE public.registry (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT ck_registry_one_row CHECK ((id = 1))
);
ALTER TABLE ONLY public.agents ALTER COLUMN id SET DEFAULT nextval('public.agents_id_seq'::regclass);
ALTER TABLE ONLY public.channels ALTER COLUMN id SET DEFAULT nextval('public.channels_id_seq'::regclass);
ALTER TABLE ONLY public.deployments ALTER COLUMN id SET DEFAULT nextval('public.deployments_id_seq'::regclass);
ALTER TABLE ONLY public.ensembles ALTER COLUMN id SET DEFAULT nextval('public.ensembles_id_seq'::regclass);
INSERT INTO public.agents VALUES (1, 'server-1', 'gr', 'champion', 'Incompatible', 'reading gr: ENOENT (the file is not there: the module is not loaded, or does not know this CCA)', 'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37', 4, NULL, 0, '6.1.0-25-amd64', NULL, '0.1.0', '2026-11-26 19:47:08.768269+00');
INSERT INTO public.alembic_version VALUES ('0003');
INSERT INTO public.channels VALUES (1, 'gr', 'champion', 4);
INSERT INTO public.channels VALUES (2, 'gr', 'canary', 1);
INSERT INTO public.deployments VALUES (1, 1, 1, 'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59', 0, 'first', NULL, '2026-11-26 19:47:08.234892+00', false, 'key-1', 'sha256:2d6cb7a4bda9423fc4c267a35ca3b86abb5c4b60f27b50f2d54f7c1b862358dd');
INSERT INTO public.deployments VALUES (2, 1, 2, 'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37', 100, 'zwölf µs', NULL, '2026-11-26 19:47:08.509068+00', true, NULL, NULL);
INSERT INTO public.deployments VALUES (3, 1, 3, 'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59', 0, 'p95 rose', 1, '2026-11-26 19:47:08.58447+00', true, NULL, NULL);
INSERT INTO public.deployments VALUES (4, 1, 4, 'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37', 0, '', NULL, '2026-11-26 19:47:08.679256+00', false, NULL, NULL);
INSERT INTO public.deployments VALUES (5, 2, 1, 'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37', 0, '', NULL, '2026-11-26 19:47:08.689617+00', false, NULL, NULL);
INSERT INTO public.ensembles VALUES (1, 'sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59', 'gr', 4, 2, 629, '{"axes":[{"count":4,"name":"throughput_bytes_per_s","scale":"linear","step":125000}],"cca":"gr","classes":[{"percentile":95,"queueing_delay_us":50000},{"percentile":95,"queueing_delay_us":100000}],"columns":["bandwidth_window_us","adaptation_interval_us","delay_threshold_us"],"digest":"sha256:03c4f6f91486de4082473cdbb375de8be865515d2cee5752d4526e9fb5bd7d59","epoch_ms":30000,"epsilon_pct":25,"estimate_ms":250,"provenance":{"number":0},"rows":[[60000,3000,12000],[60000,3000,12001],[60000,3000,12002],[60000,3000,12003],[60000,3000,12004],[60000,3000,12005],[60000,3000,12006],[60000,3000,12007]],"schema":"ccatune-ensemble/1"}', '2026-11-26 19:47:08.19331+00');
INSERT INTO public.ensembles VALUES (2, 'sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37', 'gr', 4, 2, 629, '{"axes":[{"count":4,"name":"throughput_bytes_per_s","scale":"linear","step":125000}],"cca":"gr","classes":[{"percentile":95,"queueing_delay_us":50000},{"percentile":95,"queueing_delay_us":100000}],"columns":["bandwidth_window_us","adaptation_interval_us","delay_threshold_us"],"digest":"sha256:19d725c417ed955a65a458b10cd022adedd93361cfdc5530d0717f3db30efa37","epoch_ms":30000,"epsilon_pct":25,"estimate_ms":250,"provenance":{"number":1},"rows":[[60000,3000,12000],[60000,3000,12001],[60000,3000,12002],[60000,3000,12003],[60000,3000,12004],[60000,3000,12005],[60000,3000,12006],[60000,3000,12007]],"schema":"ccatune-ensemble/1"}', '2026-11-26 19:47:08.501174+00');
INSERT INTO public.registry VALUES (1, 'lab', '2026-11-26 19:47:08.145068+00');
SELECT pg_catalog.setval('public.agents_id_seq', 7, true);
SELECT pg_catalog.setval('public.channels_id_seq', 2, true);
SELECT pg_catalog.setval('public.deployments_id_seq', 5, true);
SELECT pg_catalog.setval('public.ensembles_id_seq', 2, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.agents
    ADD CONSTRAINT pk_agents PRIMARY KEY (id);
ALTER TABLE ONLY public.channels
    ADD CONSTRAINT pk_channels PRIMARY KEY (id);
ALTER TABLE ONLY public.deployments
    ADD CONSTRAINT pk_deployments PRIMARY KEY (id);
ALTER TABLE ONLY public.ensembles
    ADD CONSTRAINT pk_ensembles PRIMARY KEY (id);
ALTER TABLE ONLY public.registry
    ADD CONSTRAINT pk_registry PRIMARY KEY (id);
ALTER TABLE ONLY public.agents
    ADD CONSTRAINT uq_agents_agent_id_cca UNIQUE (agent_id, cca);
ALTER TABLE ONLY public.channels
    ADD CONSTRAINT uq_channels_cca_name UNIQUE (cca, name);
ALTER TABLE ONLY public.deployments
    ADD CONSTRAINT uq_deployments_channel_id_serial UNIQUE (channel_id, serial);
ALTER TABLE ONLY public.ensembles
    ADD CONSTRAINT uq_ensembles_digest UNIQUE (digest);
CREATE UNIQUE INDEX ix_deployments_channel_id_idempotency_key ON public.deployments USING btree (channel_id, idempotency_key);
CREATE INDEX ix_deployments_digest ON public.deployments USING btree (digest);
CREATE INDEX ix_ensembles_cca ON public.ensembles USING btree (cca);
ALTER TABLE ONLY public.deployments
    ADD CONSTRAINT fk_deployments_channel_id FOREIGN KEY (channel_id) REFERENCES public.channels(id);
ALTER TABLE ONLY public.deployments
    ADD CONSTRAINT fk_deployments_digest FOREIGN KEY (digest) REFERENCES public.ensembles(digest);
