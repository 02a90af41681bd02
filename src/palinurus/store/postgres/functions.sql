-- What a batch of changes does, as one statement of the client: whatever happens to the client, the server ends it.
-- `apply_changes` takes one lock for all nodes, so changes happen one batch after the other, as in a state of one
-- machine; no two can deadlock or see half of each other. Each change is a function that returns (result, news).
-- Bytes travel beside the JSON: a number in an op is a place in `blobs`.

CREATE TYPE done AS (result jsonb, news jsonb);

CREATE FUNCTION give(result jsonb, news jsonb DEFAULT '[]') RETURNS done
LANGUAGE sql IMMUTABLE AS $$ SELECT ROW(result, news)::done $$;

CREATE FUNCTION say(what text, key text, session text DEFAULT '', detail text DEFAULT '') RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$ SELECT jsonb_build_array(jsonb_build_array(what, key, session, detail)) $$;

CREATE FUNCTION refuse(kind text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', message USING ERRCODE = kind;
END $$;

CREATE FUNCTION add_step(ident text, moment bigint, told text, more text) RETURNS void
LANGUAGE sql AS $$ INSERT INTO steps (item, at, what, detail) VALUES (ident, moment, told, more) $$;

CREATE FUNCTION merge_patch(old jsonb, patch jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE k text; v jsonb;
BEGIN
  IF jsonb_typeof(patch) <> 'object' THEN RETURN patch; END IF;
  IF old IS NULL OR jsonb_typeof(old) <> 'object' THEN old := '{}'; END IF;
  FOR k, v IN SELECT * FROM jsonb_each(patch) LOOP
    IF jsonb_typeof(v) = 'null' THEN old := old - k; ELSE old := old || jsonb_build_object(k, merge_patch(old -> k, v)); END IF;
  END LOOP;
  RETURN old;
END $$;

CREATE FUNCTION add_lines(lines jsonb, blobs bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE one jsonb; place bigint; told bytea;
BEGIN
  FOR one IN SELECT * FROM jsonb_array_elements(lines) LOOP
    told := blobs[(one ->> 2)::int];
    SELECT start + length(data) + 1 INTO place FROM line WHERE path = one ->> 0 ORDER BY start DESC LIMIT 1;
    INSERT INTO line VALUES (one ->> 0, coalesce(place, 0), one ->> 1, told);
  END LOOP;
END $$;

CREATE FUNCTION add_steps(told jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO steps (item, at, what, detail) SELECT t ->> 0, (t ->> 1)::bigint, t ->> 2, t ->> 3 FROM jsonb_array_elements(told) AS t
$$;

CREATE FUNCTION add_spent(calls jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO spent (item, run, session, agent, provider, model, at, input, output, cache_read, cache_write, cost, ms)
  SELECT c ->> 0, c ->> 1, c ->> 2, c ->> 3, c ->> 4, c ->> 5, (c ->> 6)::bigint, (c ->> 7)::bigint, (c ->> 8)::bigint,
         (c ->> 9)::bigint, (c ->> 10)::bigint, (c ->> 11)::float8, (c ->> 12)::bigint FROM jsonb_array_elements(calls) AS c
$$;

CREATE FUNCTION add_replies(replies jsonb, blobs bytea[], now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE r jsonb; news jsonb := '[]';
BEGIN
  FOR r IN SELECT * FROM jsonb_array_elements(replies) LOOP
    INSERT INTO outbox (id, item, channel, target, data, at, state, due)
    VALUES (r ->> 0, r ->> 1, r ->> 2, r ->> 3, blobs[(r ->> 4)::int], (r ->> 5)::bigint, 'pending', (r ->> 6)::bigint)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      PERFORM add_step(r ->> 1, now, 'reply queued', format('%s %s %s', r ->> 2, r ->> 3, r ->> 0));
      news := news || say('replies', r ->> 2);
    END IF;
  END LOOP;
  RETURN news;
END $$;

CREATE FUNCTION put_session(s jsonb, blobs bytea[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO sessions VALUES (s ->> 0, s ->> 1, s ->> 2, (s ->> 3)::bigint, blobs[(s ->> 4)::int])
  ON CONFLICT (key) DO UPDATE SET agent = excluded.agent, session_id = excluded.session_id, updated = excluded.updated, data = excluded.data
$$;

CREATE FUNCTION patch_session(s jsonb, blobs bytea[]) RETURNS void LANGUAGE sql AS $$
  UPDATE sessions SET updated = greatest(updated, (s ->> 3)::bigint), data = convert_to(merge_patch(
    convert_from(data, 'UTF8')::jsonb, convert_from(blobs[(s ->> 4)::int], 'UTF8')::jsonb)::text, 'UTF8')
  WHERE key = s ->> 0 AND session_id = s ->> 2
$$;

CREATE FUNCTION finish(ident text, how text, told text, now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE inbox SET state = 'done', outcome = how, note = told, settled = now, node = '' WHERE id = ident;
  PERFORM add_step(ident, now, 'settled', how);
END $$;

CREATE FUNCTION check_held(op jsonb, OUT kept inbox) LANGUAGE plpgsql AS $$
BEGIN
  SELECT * INTO kept FROM inbox WHERE id = op ->> 'id' AND state = 'running' AND fence = (op ->> 'fence')::int;
  IF kept.id IS NULL THEN
    PERFORM refuse('PAL01', format('message %s is not held by this run any more (attempt %s)', op ->> 'id', op ->> 'attempts'));
  END IF;
END $$;

-- Running messages wait again; those that were dismissed end.
CREATE FUNCTION requeue(ids text[], told text, now bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE r inbox; news jsonb := '[]';
BEGIN
  FOR r IN SELECT * FROM inbox WHERE state = 'running' AND id = ANY (ids) ORDER BY seq LOOP
    IF r.outcome IS NOT NULL THEN
      PERFORM finish(r.id, r.outcome, r.note, now);
      news := news || say('ended', r.id, r.session, r.lane);
    ELSE
      UPDATE inbox SET state = 'queued', node = '' WHERE id = r.id;
      PERFORM add_step(r.id, now, told, CASE told WHEN 'yielded' THEN '' ELSE format('attempt %s', r.attempts) END);
      news := news || say('queued', r.id, r.session, r.lane);
    END IF;
  END LOOP;
  RETURN news;
END $$;

-- The conversation a message is about: a command's stands after the colon.
CREATE FUNCTION find_key(session text, lane text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE lane WHEN 'control' THEN substr(session, position(':' IN session) + 1) ELSE session END
$$;

-- A command about what another node runs: that node does it. What stops runs is done wherever it was asked.
CREATE FUNCTION is_for_another(asked text, pool text, me text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT pool = 'control' AND NOT starts_with(asked, 'control/stop') AND EXISTS
    (SELECT 1 FROM inbox AS r WHERE r.session = find_key(asked, pool) AND r.state = 'running' AND r.node <> me)
$$;

CREATE FUNCTION op_accept(op jsonb, blobs bytea[], me text, mine bigint, now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE take boolean; first record;
BEGIN
  take := (op ->> 'claim')::boolean AND NOT EXISTS
    (SELECT 1 FROM inbox WHERE session = op ->> 'session' AND state = 'running') AND NOT EXISTS
    (SELECT 1 FROM inbox WHERE session = op ->> 'session' AND state = 'queued')
    AND NOT is_for_another(op ->> 'session', op ->> 'lane', me);
  SELECT id, state INTO first FROM inbox WHERE dedupe = op ->> 'dedupe';
  IF FOUND THEN RETURN give(jsonb_build_object('id', first.id, 'duplicate', true, 'state', first.state), '[]'); END IF;
  IF jsonb_typeof(op -> 'slot') = 'array' THEN
    INSERT INTO slots VALUES (op -> 'slot' ->> 0, (op -> 'slot' ->> 1)::bigint, now) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN PERFORM refuse('PAL03', format('job %s has fired for %s before', op -> 'slot' ->> 0, op -> 'slot' ->> 1)); END IF;
  END IF;
  IF NOT take AND (op ->> 'limit') IS NOT NULL AND
     (SELECT count(*) FROM inbox WHERE session = op ->> 'session' AND state = 'queued') >= (op ->> 'limit')::int THEN
    PERFORM refuse('PAL02', format('%s messages already wait in this session', op ->> 'limit'));
  END IF;
  INSERT INTO inbox (id, dedupe, session, lane, body, at, state, attempts, fence, claimed, node, epoch)
  VALUES (op ->> 'id', op ->> 'dedupe', op ->> 'session', op ->> 'lane', blobs[(op ->> 'body')::int], (op ->> 'at')::bigint,
    CASE WHEN take THEN 'running' ELSE 'queued' END, take::int, take::int, CASE WHEN take THEN now ELSE 0 END,
    CASE WHEN take THEN me ELSE '' END, mine);
  IF take THEN
    PERFORM add_step(op ->> 'id', now, 'claimed', 'attempt 1');
    RETURN give(jsonb_build_object('id', op ->> 'id', 'duplicate', false, 'state', 'running'), '[]');
  END IF;
  IF (op ->> 'hold')::float8 > 0 THEN PERFORM op_hold(op || jsonb_build_object('seconds', op -> 'hold'), now); END IF;
  RETURN give(jsonb_build_object('id', op ->> 'id', 'duplicate', false, 'state', 'queued'),
          say('queued', op ->> 'id', op ->> 'session', op ->> 'lane'));
END $$;

CREATE FUNCTION op_hold(op jsonb, now bigint) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM hold WHERE session = op ->> 'session' OR until <= now;
  IF (op ->> 'seconds')::float8 > 0 THEN
    INSERT INTO hold VALUES (op ->> 'session', now + ((op ->> 'seconds')::float8 * 1000)::bigint);
  END IF;
  RETURN give(NULL, '[]');
END $$;

-- Some of those that wait in a session take each other's places. A place is one message's alone: first all leave theirs.
CREATE FUNCTION op_rearrange(op jsonb) RETURNS done LANGUAGE plpgsql AS $$
DECLARE moved text[]; places bigint[];
BEGIN
  SELECT array_agg(q.id ORDER BY w.n), array_agg(q.seq ORDER BY q.seq) INTO moved, places
  FROM jsonb_array_elements_text(op -> 'ids') WITH ORDINALITY AS w (id, n) JOIN inbox AS q ON q.id = w.id
  WHERE q.session = op ->> 'session' AND q.state = 'queued';
  UPDATE inbox SET seq = -seq WHERE id = ANY (moved);
  UPDATE inbox AS q SET seq = p.seq FROM unnest(moved, places) AS p (id, seq) WHERE q.id = p.id;
  RETURN give((SELECT coalesce(jsonb_agg(id ORDER BY seq), '[]') FROM inbox WHERE session = op ->> 'session' AND state = 'queued'),
    say('moved', op ->> 'session', op ->> 'session'));
END $$;

CREATE FUNCTION op_claim(op jsonb, me text, mine bigint, now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE r inbox; news jsonb := '[]'; got jsonb := '[]';
BEGIN
  FOR r IN
    SELECT * FROM inbox AS q WHERE state = 'queued' AND lane = op ->> 'lane'
      AND NOT EXISTS (SELECT 1 FROM inbox AS b WHERE b.session = q.session AND b.state = 'running')
      AND NOT EXISTS (SELECT 1 FROM hold AS h WHERE h.session = q.session AND h.until > now)
      AND (jsonb_typeof(op -> 'serves') = 'null' OR EXISTS
        (SELECT 1 FROM jsonb_array_elements_text(op -> 'serves') AS s WHERE starts_with(find_key(q.session, q.lane), s)))
      AND NOT EXISTS (SELECT 1 FROM inbox AS e WHERE e.session = q.session AND e.state = 'queued' AND e.seq < q.seq)
      AND NOT is_for_another(q.session, q.lane, me)
    ORDER BY seq LIMIT (op ->> 'most')::int
  LOOP
    UPDATE inbox SET state = 'running', attempts = attempts + 1, fence = fence + 1, claimed = now, node = me, epoch = mine
    WHERE seq = r.seq;
    PERFORM add_step(r.id, now, 'claimed', format('attempt %s', r.attempts + 1));
    news := news || say('taken', r.id, r.session);
    got := got || jsonb_build_array(jsonb_build_array(r.id, r.session, r.lane, encode(r.body, 'base64'), r.at, r.attempts + 1, r.fence + 1));
  END LOOP;
  RETURN give(got, news);
END $$;

CREATE FUNCTION op_append(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE kept inbox; ident text; news jsonb := '[]';
BEGIN
  kept := check_held(op);
  FOR ident IN SELECT * FROM jsonb_array_elements_text(op -> 'absorb') LOOP
    UPDATE inbox SET state = 'absorbed', absorbed_by = kept.id, settled = now WHERE id = ident AND state = 'queued';
    IF NOT FOUND THEN PERFORM refuse('PAL01', format('message %s is no longer waiting; it was not absorbed', ident)); END IF;
    PERFORM add_step(ident, now, 'absorbed', format('by %s', kept.id));
    news := news || say('absorbed', ident, kept.session, kept.id);
  END LOOP;
  PERFORM add_lines(op -> 'lines', blobs), add_steps(op -> 'steps'), add_spent(op -> 'spent');
  RETURN give(NULL, news);
END $$;

CREATE FUNCTION op_queue_replies(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE kept inbox;
BEGIN
  IF op ? 'id' THEN kept := check_held(op); END IF;
  IF kept.outcome IS NOT NULL THEN RETURN give(NULL); END IF; -- it was dismissed, perhaps by another node
  RETURN give(NULL, add_replies(op -> 'replies', blobs, now));
END $$;

CREATE FUNCTION op_settle(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE kept inbox; news jsonb; how text := op ->> 'outcome'; told text := op ->> 'note'; replies jsonb := op -> 'replies';
BEGIN
  kept := check_held(op);
  IF kept.outcome IS NOT NULL AND kept.outcome <> how THEN -- it was dismissed: what the run says after that is not heard
    how := kept.outcome; told := kept.note; replies := '[]';
  END IF;
  PERFORM add_steps(op -> 'steps');
  PERFORM finish(kept.id, how, coalesce(nullif(told, ''), kept.note), now);
  news := say('ended', kept.id, kept.session, kept.lane);
  PERFORM add_lines(op -> 'lines', blobs), add_spent(op -> 'spent');
  IF jsonb_typeof(op -> 'session') = 'array' THEN PERFORM put_session(op -> 'session', blobs); END IF;
  IF jsonb_typeof(op -> 'touch') = 'array' THEN PERFORM patch_session(op -> 'touch', blobs); END IF;
  RETURN give(NULL, news || add_replies(replies, blobs, now));
END $$;

CREATE FUNCTION op_yield_back(op jsonb, now bigint) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  PERFORM check_held(op);
  UPDATE inbox SET attempts = attempts - 1, claimed = 0 WHERE id = op ->> 'id';
  RETURN give(NULL, requeue(ARRAY[op ->> 'id'], 'yielded', now));
END $$;

CREATE FUNCTION op_dismiss(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE e jsonb; r inbox; news jsonb := '[]'; ended jsonb := '[]'; marked jsonb := '[]';
BEGIN
  FOR e IN SELECT * FROM jsonb_array_elements(op -> 'ends') LOOP
    SELECT * INTO r FROM inbox WHERE id = e ->> 'id';
    IF r.state = 'queued' THEN
      PERFORM finish(r.id, e ->> 'outcome', e ->> 'note', now);
      news := news || say('ended', r.id, r.session, r.lane) || add_replies(e -> 'replies', blobs, now);
      ended := ended || to_jsonb(r.id);
    ELSIF r.state = 'running' THEN
      UPDATE inbox SET outcome = e ->> 'outcome', note = e ->> 'note' WHERE id = r.id;
      IF (e ->> 'silent')::boolean THEN UPDATE outbox SET state = 'cancelled' WHERE item = r.id AND state = 'pending'; END IF;
      PERFORM add_step(r.id, now, 'stopped', e ->> 'note');
      news := news || say('stopped', r.id, r.session, e ->> 'note');
      marked := marked || to_jsonb(r.id);
    END IF;
  END LOOP;
  RETURN give(jsonb_build_array(ended, marked), news);
END $$;

CREATE FUNCTION op_stop(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE sql AS $$
  SELECT op_dismiss(jsonb_build_object('ends', coalesce(jsonb_agg(jsonb_build_object('id', id, 'outcome', 'aborted',
      'note', CASE state WHEN 'running' THEN op ->> 'note' ELSE op ->> 'waiting' END, 'silent', op -> 'silent', 'replies', '[]'::jsonb)
      ORDER BY state DESC, seq), '[]')), blobs, now)
  FROM inbox WHERE session = op ->> 'session'
    AND (state = 'running' OR (state = 'queued' AND (op ->> 'waiting') IS NOT NULL))
    AND (jsonb_typeof(op -> 'only') = 'null' OR op -> 'only' ? id)
$$;

CREATE FUNCTION op_requeue(op jsonb, me text, mine bigint, now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE ids text[];
BEGIN
  IF op ? 'ids' THEN
    ids := ARRAY(SELECT jsonb_array_elements_text(op -> 'ids'));
    RETURN give(NULL, requeue(ids, 'nobody ran it', now));
  END IF; -- at start: what this node left in an earlier life
  ids := ARRAY(SELECT id FROM inbox WHERE state = 'running' AND node = me AND epoch < mine);
  RETURN give(NULL, requeue(ids, 'interrupted', now));
END $$;

CREATE FUNCTION op_mark_reply(op jsonb, now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE r outbox; told text; more text := '';
BEGIN
  SELECT * INTO r FROM outbox WHERE id = op ->> 'id';
  IF r.id IS NULL THEN PERFORM refuse('PAL01', format('there is no reply %s', op ->> 'id')); END IF;
  IF r.state NOT IN ('pending', 'sending') OR r.attempts <> coalesce((op ->> 'attempts')::int, r.attempts) THEN
    PERFORM refuse('PAL01', format('reply %s is not waiting to be sent: it is %s', r.id, r.state));
  END IF;
  CASE op ->> 'how'
  WHEN 'sending' THEN
    UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE seq = r.seq;
    told := 'sending'; more := format(', attempt %s', r.attempts + 1);
  WHEN 'sent' THEN
    UPDATE outbox SET state = 'sent', receipt = op ->> 'receipt', error = '' WHERE seq = r.seq;
    told := 'sent'; more := format(', receipt %s', op ->> 'receipt');
  ELSE
    UPDATE outbox SET state = CASE WHEN op ->> 'due' IS NULL THEN 'failed' ELSE 'pending' END, error = op ->> 'error',
      due = coalesce((op ->> 'due')::bigint, 0) WHERE seq = r.seq;
    told := CASE WHEN op ->> 'due' IS NULL THEN 'failed' ELSE 'not sent' END; more := format(': %s', op ->> 'error');
  END CASE;
  PERFORM add_step(r.item, coalesce((op ->> 'now')::bigint, now), told, format('%s %s %s%s', r.channel, r.target, r.id, more));
  IF told <> 'sending' THEN RETURN give(NULL); END IF;
  RETURN give(to_jsonb(r) || jsonb_build_object('state', 'sending', 'attempts', r.attempts + 1, 'data', encode(r.data, 'base64')));
END $$;

CREATE FUNCTION op_session(op jsonb, blobs bytea[]) RETURNS done LANGUAGE plpgsql AS $$
DECLARE have bytea;
BEGIN
  CASE op ->> 'how'
  WHEN 'touch' THEN PERFORM patch_session(op -> 'row', blobs);
  WHEN 'drop' THEN
    DELETE FROM sessions WHERE key = op ->> 'key';
    DELETE FROM line WHERE path = op ->> 'path';
  ELSE
    IF (op ->> 'checks')::boolean THEN
      SELECT data INTO have FROM sessions WHERE key = op -> 'row' ->> 0;
      IF have IS DISTINCT FROM blobs[(op ->> 'expect')::int] THEN RETURN give(to_jsonb(false), '[]'); END IF;
    END IF;
    PERFORM put_session(op -> 'row', blobs);
  END CASE;
  RETURN give(to_jsonb(true), '[]');
END $$;

CREATE FUNCTION op_write(op jsonb, blobs bytea[]) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM inbox WHERE session = op ->> 'idle' AND state = 'running') THEN
    PERFORM refuse('PAL01', format('a message of %s runs', op ->> 'idle'));
  END IF;
  PERFORM add_lines(op -> 'lines', blobs);
  RETURN give(NULL, '[]');
END $$;

CREATE FUNCTION op_prune(op jsonb) RETURNS done LANGUAGE plpgsql AS $$
DECLARE b bigint := op ->> 'before'; gone int; total int := 0; most int := op ->> 'rows';
BEGIN
  DELETE FROM inbox WHERE seq IN (SELECT seq FROM inbox WHERE state IN ('done', 'absorbed') AND greatest(at, settled) < b ORDER BY seq LIMIT most);
  GET DIAGNOSTICS gone = ROW_COUNT; total := total + gone;
  DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox WHERE state NOT IN ('pending', 'sending') AND at < b ORDER BY seq LIMIT most);
  GET DIAGNOSTICS gone = ROW_COUNT; total := total + gone;
  DELETE FROM steps AS t WHERE t.n IN (SELECT s.n FROM steps AS s WHERE s.at < b AND NOT EXISTS (SELECT 1 FROM inbox WHERE id = s.item) LIMIT most);
  GET DIAGNOSTICS gone = ROW_COUNT; total := total + gone;
  DELETE FROM blob WHERE name IN (SELECT name FROM blob WHERE at < to_timestamp(b / 1000.0) LIMIT most);
  DELETE FROM account WHERE at < to_timestamp(b / 1000.0); -- made anew from the ledger, should anybody ask
  DELETE FROM slots WHERE (job, due) IN (SELECT job, due FROM slots WHERE due < b AND at < b LIMIT most);
  GET DIAGNOSTICS gone = ROW_COUNT; total := total + gone;
  RETURN give(to_jsonb(total), '[]');
END $$;

CREATE FUNCTION op_put_record(op jsonb, blobs bytea[], now bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE have bytea;
BEGIN
  IF (op ->> 'checks')::boolean THEN
    SELECT data INTO have FROM kept WHERE kind = op ->> 'kind' AND key = op ->> 'key';
    IF have IS DISTINCT FROM blobs[(op ->> 'expect')::int] THEN RETURN give(to_jsonb(false), '[]'); END IF;
  END IF;
  IF op ->> 'data' IS NULL THEN
    DELETE FROM kept WHERE kind = op ->> 'kind' AND key = op ->> 'key';
  ELSE
    INSERT INTO kept VALUES (op ->> 'kind', op ->> 'key', blobs[(op ->> 'data')::int], now)
    ON CONFLICT (kind, key) DO UPDATE SET data = excluded.data, at = excluded.at;
  END IF;
  RETURN give(to_jsonb(true), say('record', op ->> 'kind', '', op ->> 'key'));
END $$;

CREATE FUNCTION op_slot(op jsonb, now bigint) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO slots VALUES (op ->> 'job', (op ->> 'due')::bigint, now) ON CONFLICT DO NOTHING;
  RETURN give(to_jsonb(FOUND), '[]');
END $$;

CREATE FUNCTION op_grant(op jsonb, me text, mine bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE holder text;
BEGIN
  IF (op ->> 'alone')::boolean AND EXISTS (SELECT 1 FROM node WHERE id <> me AND until > clock_timestamp()) THEN
    RETURN give(to_jsonb(false));
  END IF;
  DELETE FROM held AS h WHERE name = op ->> 'name' AND NOT EXISTS
    (SELECT 1 FROM node AS n WHERE n.id = h.node AND n.epoch = h.epoch AND n.until > clock_timestamp());
  INSERT INTO held VALUES (op ->> 'name', me, mine) ON CONFLICT DO NOTHING;
  SELECT node INTO holder FROM held WHERE name = op ->> 'name';
  RETURN give(to_jsonb(holder = me), '[]');
END $$;

CREATE FUNCTION op_give_up(op jsonb, me text) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM held WHERE name = op ->> 'name' AND node = me;
  RETURN give(NULL, CASE WHEN FOUND THEN say('released', op ->> 'name') ELSE '[]' END);
END $$;

-- May a call begin that usually takes `likely` and `most` at most? One that fits only if it turns out as usual is let in
-- alone. (`providers/budget.py: SpendingAccount.fits`, which is for one node)
CREATE FUNCTION fits(hard float8, spent float8, kept float8, calls bigint, amount jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN hard IS NULL THEN 'yes'
    WHEN spent >= hard OR spent + (amount ->> 0)::float8 > hard THEN 'no'
    WHEN spent + kept + (amount ->> 1)::float8 <= hard OR calls = 0 THEN 'yes'
    ELSE 'wait' END
$$;

CREATE FUNCTION op_reserve(op jsonb, me text, mine bigint) RETURNS done LANGUAGE plpgsql AS $$
DECLARE one jsonb; a account; k record; told text; n int := 0; verdict text := 'yes'; spent jsonb := '[]'; full_one int := -1;
BEGIN
  DELETE FROM reserved AS r WHERE NOT EXISTS
    (SELECT 1 FROM node AS x WHERE x.id = r.node AND x.epoch = r.epoch AND x.until > clock_timestamp());
  FOR one IN SELECT * FROM jsonb_array_elements(op -> 'accounts') LOOP
    INSERT INTO account (scope, usd, tokens) VALUES (one ->> 'name', (one ->> 'usd')::float8, (one ->> 'tokens')::float8)
    ON CONFLICT DO NOTHING;
    SELECT * INTO a FROM account WHERE scope = one ->> 'name';
    SELECT coalesce(sum(usd), 0) AS usd, coalesce(sum(tokens), 0) AS tokens, count(*) AS calls INTO k
    FROM reserved WHERE scope = a.scope AND id <> op ->> 'id';
    FOREACH told IN ARRAY ARRAY[fits((one ->> 'hard_usd')::float8, a.usd, k.usd, k.calls, op -> 'usd'),
                                fits((one ->> 'hard_tokens')::float8, a.tokens, k.tokens, k.calls, op -> 'tokens')] LOOP
      IF told = 'no' AND full_one < 0 THEN full_one := n; END IF;
      IF told = 'no' OR (told = 'wait' AND verdict = 'yes') THEN verdict := told; END IF;
    END LOOP;
    spent := spent || jsonb_build_array(jsonb_build_array(a.usd, a.tokens));
    n := n + 1;
  END LOOP;
  IF verdict = 'yes' THEN
    INSERT INTO reserved SELECT op ->> 'id', x ->> 'name', me, mine, (op -> 'usd' ->> 1)::float8, (op -> 'tokens' ->> 1)::float8
    FROM jsonb_array_elements(op -> 'accounts') AS x ON CONFLICT DO NOTHING;
  END IF;
  RETURN give(jsonb_build_object('verdict', verdict, 'spent', spent, 'full', full_one));
END $$;

CREATE FUNCTION op_release(op jsonb) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM reserved WHERE id = op ->> 'id';
  UPDATE account SET usd = usd + (op ->> 'usd')::float8, tokens = tokens + (op ->> 'tokens')::float8, at = clock_timestamp()
  WHERE op -> 'accounts' ? scope;
  RETURN give(NULL);
END $$;

CREATE FUNCTION apply_change(op jsonb, blobs bytea[], me text, mine bigint, now bigint) RETURNS done LANGUAGE plpgsql AS $$
BEGIN
  CASE op ->> 'op'
  WHEN 'accept' THEN RETURN op_accept(op, blobs, me, mine, now);
  WHEN 'hold' THEN RETURN op_hold(op, now);
  WHEN 'rearrange' THEN RETURN op_rearrange(op);
  WHEN 'claim' THEN RETURN op_claim(op, me, mine, now);
  WHEN 'append' THEN RETURN op_append(op, blobs, now);
  WHEN 'replies' THEN RETURN op_queue_replies(op, blobs, now);
  WHEN 'settle' THEN RETURN op_settle(op, blobs, now);
  WHEN 'yield' THEN RETURN op_yield_back(op, now);
  WHEN 'dismiss' THEN RETURN op_dismiss(op, blobs, now);
  WHEN 'stop' THEN RETURN op_stop(op, blobs, now);
  WHEN 'requeue' THEN RETURN op_requeue(op, me, mine, now);
  WHEN 'mark' THEN RETURN op_mark_reply(op, now);
  WHEN 'session' THEN RETURN op_session(op, blobs);
  WHEN 'write' THEN RETURN op_write(op, blobs);
  WHEN 'prune' THEN RETURN op_prune(op);
  WHEN 'record' THEN RETURN op_put_record(op, blobs, now);
  WHEN 'slot' THEN RETURN op_slot(op, now);
  WHEN 'grant' THEN RETURN op_grant(op, me, mine);
  WHEN 'give up' THEN RETURN op_give_up(op, me);
  WHEN 'reserve' THEN RETURN op_reserve(op, me, mine);
  WHEN 'release' THEN RETURN op_release(op);
  END CASE;
END $$;

-- What others are to hear; false if there is nothing, or nobody.
CREATE FUNCTION publish(me text, told jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO news (node, said) SELECT me, told WHERE told <> '[]' AND EXISTS (SELECT 1 FROM node WHERE id <> me);
  RETURN FOUND;
END $$;

-- A batch of changes of the node `me`. `guarded`: one that fails takes no other along. Refused as PAL04 if the node's
-- lease is over or it has a later life.
CREATE FUNCTION apply_changes(me text, mine bigint, number bigint, moment bigint, ops jsonb, blobs bytea[], guarded boolean)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  known node; op jsonb; one done; results jsonb := '[]'; told jsonb := '[]'; gives jsonb;
  now bigint := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
BEGIN
  PERFORM pg_advisory_xact_lock(7001, hashtext('palinurus'));
  SELECT * INTO known FROM node WHERE id = me AND epoch = mine AND until > clock_timestamp();
  IF known.id IS NULL THEN PERFORM refuse('PAL04', format('%s is no node of this fleet any more', me)); END IF;
  IF known.batch = number THEN RETURN known.answer; END IF;
  IF known.batch > number THEN -- it was sent again on another connection, and more after it
    PERFORM refuse('PAL01', format('batch %s comes after batch %s', number, known.batch));
  END IF;
  FOR op IN SELECT * FROM jsonb_array_elements(ops) LOOP
    IF guarded THEN
      BEGIN
        one := apply_change(op, blobs, me, mine, now);
      EXCEPTION WHEN OTHERS THEN
        one := give(jsonb_build_object('refused', SQLSTATE, 'message', SQLERRM), '[]');
      END;
    ELSE
      one := apply_change(op, blobs, me, mine, now);
    END IF;
    results := results || jsonb_build_array(one.result);
    told := told || one.news;
  END LOOP;
  gives := jsonb_build_object('results', results, 'news', publish(me, told));
  UPDATE node SET batch = number, answer = gives WHERE id = me;
  RETURN gives;
END $$;

CREATE FUNCTION join_fleet(me text, lease interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE mine bigint := nextval('epochs');
BEGIN
  PERFORM pg_advisory_xact_lock(7001, hashtext('palinurus'));
  INSERT INTO node (id, epoch, until) VALUES (me, mine, clock_timestamp() + lease)
  ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, until = excluded.until, batch = 0, answer = NULL;
  DELETE FROM held WHERE node = me;
  RETURN mine;
END $$;

-- A reply of which nobody knows whether it was shown: who sent it is dead. The next who sends for its channel looks.
CREATE FUNCTION note_unsure(dead text, told text, now bigint) RETURNS void LANGUAGE sql AS $$
  SELECT add_step(o.item, now, told, format('while it sent %s', o.id)) FROM outbox AS o JOIN held AS h ON h.node = dead
  WHERE o.state = 'sending' AND h.name = 'channel/' || o.channel
$$;

-- Nobody runs it any more: its node is gone, or came back. What was stopped in its earlier life it tells of itself.
CREATE FUNCTION is_left(r inbox) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT 1 FROM node AS n WHERE n.id = r.node AND (n.epoch = r.epoch OR r.outcome IS NOT NULL))
$$;

-- Still here: the lease is longer, the dead are buried. `alive` false: this node is dead itself. `soon`: seconds until
-- the next lease of another ends. `news`: there is something for the others to hear. `waiting`: lanes in which
-- something could begin, for a node that missed the news of it. `unsaid`: what was stopped and ends now, of the dead.
CREATE FUNCTION keep_lease(me text, mine bigint, lease interval) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  dead text; name text; news jsonb := '[]'; soon float8; ids text[]; lanes jsonb;
  now bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7001, hashtext('palinurus'));
  UPDATE node SET until = clock_timestamp() + lease WHERE id = me AND epoch = mine AND until > clock_timestamp();
  IF NOT FOUND THEN RETURN jsonb_build_object('alive', false); END IF;
  DELETE FROM node WHERE until <= clock_timestamp();
  FOR dead IN SELECT DISTINCT i.node FROM inbox AS i WHERE i.state = 'running' AND is_left(i) LOOP
    ids := ARRAY(SELECT i.id FROM inbox AS i WHERE i.state = 'running' AND i.node = dead AND is_left(i));
    news := news || requeue(ids, format('node %s lost', dead), now);
  END LOOP;
  FOR dead IN SELECT DISTINCT h.node FROM held AS h WHERE NOT EXISTS (SELECT 1 FROM node AS n WHERE n.id = h.node) LOOP
    PERFORM note_unsure(dead, format('node %s lost', dead), now);
  END LOOP;
  FOR name IN DELETE FROM held AS h WHERE NOT EXISTS
    (SELECT 1 FROM node AS n WHERE n.id = h.node AND n.epoch = h.epoch) RETURNING h.name LOOP
    news := news || say('released', name);
  END LOOP;
  DELETE FROM news AS x WHERE x.at < clock_timestamp() - 20 * lease;
  SELECT extract(epoch FROM min(until) - clock_timestamp()) INTO soon FROM node WHERE id <> me;
  SELECT coalesce(jsonb_agg(DISTINCT q.lane), '[]') INTO lanes FROM inbox AS q WHERE q.state = 'queued' AND NOT EXISTS
    (SELECT 1 FROM inbox AS r WHERE r.session = q.session AND r.state = 'running');
  RETURN jsonb_build_object('alive', true, 'soon', soon, 'waiting', lanes, 'news', publish('', news), -- for this node too
    'unsaid', (SELECT coalesce(jsonb_agg(x ->> 1), '[]') FROM jsonb_array_elements(news) AS x WHERE x ->> 0 = 'ended'));
END $$;

CREATE FUNCTION leave_fleet(me text, mine bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text; told jsonb := '[]';
BEGIN
  PERFORM pg_advisory_xact_lock(7001, hashtext('palinurus'));
  FOR name IN DELETE FROM held AS h WHERE h.node = me AND h.epoch = mine RETURNING h.name LOOP told := told || say('released', name); END LOOP;
  DELETE FROM node WHERE id = me AND epoch = mine;
  PERFORM publish(me, told);
END $$;

-- Looking after nodes. ------------------------------------------------------------------------------------------------

-- Who has just joined says who it is. Returns the version of the tables.
CREATE FUNCTION describe_node(me text, mine bigint, facts jsonb) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  UPDATE node SET version = (facts ->> 'version')::int, functions = facts ->> 'functions', release = facts ->> 'release',
    config = facts ->> 'config', serves = '[]', since = clock_timestamp(), draining = false, stale = '{}',
    skew = (facts ->> 'now')::bigint - (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  WHERE id = me AND epoch = mine;
  RETURN (SELECT value::int FROM meta WHERE key = 'version');
END $$;

-- A node that finishes its runs and goes: others do what it did alone, but for its channels, whose replies it still
-- sends, and what says that it is there.
CREATE FUNCTION retire_node(me text, mine bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text; told jsonb := '[]';
BEGIN
  PERFORM pg_advisory_xact_lock(7001, hashtext('palinurus'));
  UPDATE node SET draining = true WHERE id = me AND epoch = mine;
  FOR name IN DELETE FROM held AS h WHERE h.node = me AND h.epoch = mine AND h.name !~ '^(channel|life|alive|heir|turn)/' RETURNING h.name LOOP
    told := told || say('released', name);
  END LOOP;
  PERFORM publish(me, told);
END $$;
