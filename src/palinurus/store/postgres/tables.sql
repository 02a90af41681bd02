-- The tables of a fleet: those of state.db, and who the nodes are. Times are milliseconds. A step is what stands between
-- two lines `-- version N`: one that was released is never edited, and what it adds must suit nodes of the version before.

-- version 1

CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);

CREATE TABLE node (
  id text PRIMARY KEY,
  epoch bigint NOT NULL,           -- grows with each start: an older one is refused
  until timestamptz NOT NULL,      -- the lease, by this server's clock
  batch bigint NOT NULL DEFAULT 0, -- the last changes it made, and what they gave: asked for again after a lost
  answer jsonb                     -- connection they are not made twice
);
CREATE SEQUENCE epochs;

CREATE TABLE inbox (
  seq bigserial PRIMARY KEY,
  id text NOT NULL UNIQUE COLLATE "C",
  dedupe text NOT NULL UNIQUE,
  session text NOT NULL,
  lane text NOT NULL,
  body bytea NOT NULL,
  at bigint NOT NULL,
  state text NOT NULL,
  outcome text,
  note text NOT NULL DEFAULT '',
  attempts integer NOT NULL DEFAULT 0,
  absorbed_by text NOT NULL DEFAULT '',
  claimed bigint NOT NULL DEFAULT 0,
  settled bigint NOT NULL DEFAULT 0,
  fence integer NOT NULL DEFAULT 0,
  node text NOT NULL DEFAULT '',   -- who runs it
  epoch bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX inbox_running ON inbox (session) WHERE state = 'running';
CREATE INDEX inbox_waiting ON inbox (session, seq) WHERE state = 'queued';
CREATE INDEX inbox_lane ON inbox (lane, seq) WHERE state = 'queued';

CREATE TABLE hold (session text PRIMARY KEY, until bigint NOT NULL);

CREATE TABLE outbox (
  seq bigserial PRIMARY KEY,
  id text NOT NULL UNIQUE,
  item text NOT NULL,
  channel text NOT NULL,
  target text NOT NULL,
  data bytea NOT NULL,
  at bigint NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  state text NOT NULL,
  receipt text NOT NULL DEFAULT '',
  error text NOT NULL DEFAULT '',
  due bigint NOT NULL DEFAULT 0
);
CREATE INDEX outbox_open ON outbox (channel, target, seq) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_item ON outbox (item);

CREATE TABLE sessions (
  key text PRIMARY KEY COLLATE "C",
  agent text NOT NULL,
  session_id text NOT NULL,
  updated bigint NOT NULL,
  data bytea NOT NULL
);

CREATE TABLE spent (
  seq bigserial PRIMARY KEY,
  item text NOT NULL,
  run text NOT NULL,
  session text NOT NULL,
  agent text NOT NULL,
  provider text NOT NULL,
  model text NOT NULL,
  at bigint NOT NULL,
  input bigint NOT NULL,
  output bigint NOT NULL,
  cache_read bigint NOT NULL,
  cache_write bigint NOT NULL,
  cost double precision,
  ms bigint NOT NULL DEFAULT 0
);
CREATE INDEX spent_at ON spent (at);
CREATE INDEX spent_item ON spent (item);

CREATE TABLE slots (job text NOT NULL, due bigint NOT NULL, at bigint NOT NULL, PRIMARY KEY (job, due));

CREATE TABLE steps (n bigserial PRIMARY KEY, item text NOT NULL, at bigint NOT NULL, what text NOT NULL, detail text NOT NULL);
CREATE INDEX steps_item ON steps (item, n);

-- Transcripts: `start` is where the line begins in the file it would be in.
CREATE TABLE line (
  path text NOT NULL,
  start bigint NOT NULL,
  id text NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (path, start)
);

CREATE TABLE kept (
  kind text NOT NULL,
  key text NOT NULL COLLATE "C",
  data bytea NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (kind, key)
);

CREATE TABLE held (name text PRIMARY KEY, node text NOT NULL, epoch bigint NOT NULL); -- what one node does alone

-- What others are to hear. Changes are made one batch after the other, so numbers never come late.
CREATE TABLE news (rev bigserial PRIMARY KEY, node text NOT NULL, said jsonb NOT NULL, at timestamptz NOT NULL DEFAULT now());

-- version 2: nodes say who they are, and functions are each node's own (schema.py)
ALTER TABLE node
  ADD COLUMN version integer NOT NULL DEFAULT 1,    -- of the tables that it knows
  ADD COLUMN functions text NOT NULL DEFAULT '',    -- the schema in which its own stand
  ADD COLUMN release text NOT NULL DEFAULT '',
  ADD COLUMN config text NOT NULL DEFAULT '',       -- a digest: nodes are to agree
  ADD COLUMN serves jsonb,                          -- beginnings of the sessions that it runs; NULL: all
  ADD COLUMN since timestamptz NOT NULL DEFAULT clock_timestamp(),
  ADD COLUMN draining boolean NOT NULL DEFAULT false,
  ADD COLUMN stale jsonb NOT NULL DEFAULT '{}',     -- its changes that came too late, by kind
  ADD COLUMN skew bigint NOT NULL DEFAULT 0;        -- ms that its clock is ahead of this server's
CREATE TABLE programs (place text PRIMARY KEY, version integer NOT NULL, used timestamptz NOT NULL DEFAULT clock_timestamp());

-- What nodes tell each other while it happens and does not fit a notification. Gone after a minute, or a crash.
CREATE UNLOGGED TABLE aside (n bigserial PRIMARY KEY, said text NOT NULL, at timestamptz NOT NULL DEFAULT now());

-- What was spent, by scope of a budget, and what is kept back for calls under way.
CREATE TABLE account (
  scope text PRIMARY KEY,
  usd double precision NOT NULL,
  tokens double precision NOT NULL,
  at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE reserved (
  id text NOT NULL,
  scope text NOT NULL,
  node text NOT NULL,
  epoch bigint NOT NULL,
  usd double precision NOT NULL,
  tokens double precision NOT NULL,
  PRIMARY KEY (scope, id)
);

-- Files that came with messages, for the node that runs them.
CREATE TABLE blob (name text PRIMARY KEY, data bytea NOT NULL, at timestamptz NOT NULL DEFAULT now());
