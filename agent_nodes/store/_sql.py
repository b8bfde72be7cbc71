"""Generated from tables.py and statements.py by `./dev gen`; changes here are lost."""

from agent_nodes.store.statement import Statement

DDL = """\
CREATE TABLE meta ( sid INTEGER NOT NULL, schema_version INTEGER NOT NULL, next_id INTEGER NOT NULL, seq INTEGER NOT NULL, owner_id VARCHAR NOT NULL, session_id VARCHAR NOT NULL, project VARCHAR NOT NULL, conversation_id VARCHAR NOT NULL, session_key VARCHAR NOT NULL, main_target INTEGER NOT NULL, environment_id VARCHAR NOT NULL, created_at FLOAT NOT NULL, PRIMARY KEY (sid) );
CREATE TABLE target ( id INTEGER NOT NULL, kind VARCHAR NOT NULL, parent_id INTEGER, fork_entry INTEGER, owner_task INTEGER, ancestry TEXT NOT NULL, head_entry INTEGER, tip_entry INTEGER, model TEXT, effort VARCHAR, config_version INTEGER NOT NULL, provider_session VARCHAR, context_used INTEGER, context_total INTEGER, deleted BOOLEAN NOT NULL, PRIMARY KEY (id) );
CREATE TABLE entry ( id INTEGER NOT NULL, target_id INTEGER NOT NULL, stream VARCHAR, kind VARCHAR NOT NULL, turn_id INTEGER, task_id INTEGER, head INTEGER, tokens INTEGER, message TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (id) );
CREATE INDEX entry_target ON entry (target_id, id);
CREATE TABLE turn ( sid INTEGER NOT NULL, id INTEGER NOT NULL, target_id INTEGER NOT NULL, request_id VARCHAR NOT NULL, task_id INTEGER, status VARCHAR NOT NULL, reason VARCHAR, detail VARCHAR, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, total_tokens INTEGER NOT NULL, cached_input_tokens INTEGER NOT NULL, cache_creation_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, calls INTEGER NOT NULL, started_seq INTEGER NOT NULL, ended_seq INTEGER, last_entry INTEGER, context_used INTEGER, context_total INTEGER, PRIMARY KEY (id) );
CREATE TABLE receipt ( sid INTEGER NOT NULL, request_id VARCHAR NOT NULL, target_id INTEGER NOT NULL, type VARCHAR NOT NULL, digest VARCHAR NOT NULL, result TEXT, seq INTEGER NOT NULL, PRIMARY KEY (sid, request_id) ) WITHOUT ROWID;
CREATE TABLE inbox ( sid INTEGER NOT NULL, id INTEGER NOT NULL, target_id INTEGER NOT NULL, request_id VARCHAR NOT NULL, mode VARCHAR NOT NULL, state VARCHAR NOT NULL, content TEXT NOT NULL, turn_id INTEGER, PRIMARY KEY (id) );
CREATE TABLE task ( id INTEGER NOT NULL, target_id INTEGER NOT NULL, owner_task INTEGER, turn_id INTEGER, name VARCHAR NOT NULL, version INTEGER NOT NULL, status VARCHAR NOT NULL, phase VARCHAR NOT NULL, checkpoint TEXT, input TEXT, outcome TEXT, call_id VARCHAR, tool VARCHAR, replay VARCHAR, background BOOLEAN NOT NULL, abort_requested BOOLEAN NOT NULL, wait_policy VARCHAR, wake_at FLOAT, seq INTEGER NOT NULL, PRIMARY KEY (id) );
CREATE INDEX task_live ON task (id) WHERE status <> 'terminal';
CREATE TABLE task_wait ( task_id INTEGER NOT NULL, on_id INTEGER NOT NULL, PRIMARY KEY (task_id, on_id) ) WITHOUT ROWID;
CREATE INDEX task_wait_on ON task_wait (on_id);
CREATE TABLE memo ( task_id INTEGER NOT NULL, name VARCHAR NOT NULL, value TEXT, PRIMARY KEY (task_id, name) ) WITHOUT ROWID;
CREATE TABLE progress ( stream VARCHAR NOT NULL, n INTEGER NOT NULL, block INTEGER NOT NULL, kind VARCHAR NOT NULL, delta VARCHAR NOT NULL, PRIMARY KEY (stream, n) ) WITHOUT ROWID;
CREATE TABLE decision ( sid INTEGER NOT NULL, id INTEGER NOT NULL, request_id VARCHAR NOT NULL, target_id INTEGER NOT NULL, turn_id INTEGER, task_id INTEGER, kind VARCHAR NOT NULL, prompt TEXT NOT NULL, state VARCHAR NOT NULL, answer TEXT, seq INTEGER NOT NULL, PRIMARY KEY (id) );
CREATE TABLE usage_record ( sid INTEGER NOT NULL, turn_id INTEGER NOT NULL, record_id VARCHAR NOT NULL, target_id INTEGER NOT NULL, task_id INTEGER, model VARCHAR NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_input_tokens INTEGER NOT NULL, cache_creation_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, calls INTEGER NOT NULL, cost FLOAT, seq INTEGER NOT NULL, provider VARCHAR DEFAULT '' NOT NULL, PRIMARY KEY (sid, turn_id, record_id) ) WITHOUT ROWID;
CREATE TABLE usage_total ( target_id INTEGER NOT NULL, model VARCHAR NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_input_tokens INTEGER NOT NULL, cache_creation_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, calls INTEGER NOT NULL, cost FLOAT, PRIMARY KEY (target_id, model) ) WITHOUT ROWID;
CREATE TABLE document ( id INTEGER NOT NULL, scope VARCHAR NOT NULL, owner_id INTEGER NOT NULL, kind VARCHAR NOT NULL, "key" VARCHAR NOT NULL, version INTEGER NOT NULL, value TEXT, seq INTEGER NOT NULL, PRIMARY KEY (id) );
CREATE TABLE document_past ( document_id INTEGER NOT NULL, seq INTEGER NOT NULL, value TEXT, PRIMARY KEY (document_id, seq) ) WITHOUT ROWID;
CREATE TABLE record ( id INTEGER NOT NULL, target_id INTEGER NOT NULL, kind VARCHAR NOT NULL, data TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (id) );
CREATE TABLE catalog ( sid INTEGER NOT NULL, catalog_id VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL, tools TEXT NOT NULL, PRIMARY KEY (sid, catalog_id) ) WITHOUT ROWID;
CREATE TABLE activity ( id INTEGER NOT NULL, target_id INTEGER NOT NULL, turn_id INTEGER, task_id INTEGER, seq INTEGER NOT NULL, type VARCHAR NOT NULL, data TEXT, PRIMARY KEY (id) );
CREATE INDEX activity_turn ON activity (turn_id);
INSERT INTO meta (sid, schema_version, next_id, seq, owner_id, session_id, project, conversation_id, session_key, main_target, environment_id, created_at) VALUES (1, 2, 2, 0, '', '', '', '', '', 1, '', 0.0);
INSERT INTO target (id, kind, parent_id, fork_entry, owner_task, ancestry, head_entry, tip_entry, model, effort, config_version, provider_session, context_used, context_total, deleted) VALUES (1, 'main', NULL, NULL, NULL, '[]', NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0);
"""

INSERT_META = Statement(
    'INSERT INTO meta (sid, schema_version, next_id, seq, owner_id, session_id, project, conversation_id, session_key, main_target, environment_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'schema_version', 'next_id', 'seq', 'owner_id', 'session_id', 'project', 'conversation_id', 'session_key', 'main_target', 'environment_id', 'created_at'),
    (),
    {'sid': 1, 'seq': 0, 'owner_id': '', 'session_id': '', 'project': '', 'conversation_id': '', 'session_key': '', 'environment_id': '', 'created_at': 0.0},
)
INSERT_TARGET = Statement(
    'INSERT INTO target (id, kind, parent_id, fork_entry, owner_task, ancestry, head_entry, tip_entry, model, effort, config_version, provider_session, context_used, context_total, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('id', 'kind', 'parent_id', 'fork_entry', 'owner_task', 'ancestry', 'head_entry', 'tip_entry', 'model', 'effort', 'config_version', 'provider_session', 'context_used', 'context_total', 'deleted'),
    ('ancestry', 'model'),
    {'parent_id': None, 'fork_entry': None, 'owner_task': None, 'ancestry': [], 'head_entry': None, 'tip_entry': None, 'model': None, 'effort': None, 'config_version': 0, 'provider_session': None, 'context_used': None, 'context_total': None, 'deleted': False},
)
INSERT_ENTRY = Statement(
    'INSERT INTO entry (id, target_id, stream, kind, turn_id, task_id, head, tokens, message, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('id', 'target_id', 'stream', 'kind', 'turn_id', 'task_id', 'head', 'tokens', 'message', 'seq'),
    ('message',),
    {'stream': None, 'turn_id': None, 'task_id': None, 'head': None, 'tokens': None},
)
INSERT_TURN = Statement(
    'INSERT INTO turn (sid, id, target_id, request_id, task_id, status, reason, detail, input_tokens, output_tokens, total_tokens, cached_input_tokens, cache_creation_tokens, reasoning_tokens, calls, started_seq, ended_seq, last_entry, context_used, context_total) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'id', 'target_id', 'request_id', 'task_id', 'status', 'reason', 'detail', 'input_tokens', 'output_tokens', 'total_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'started_seq', 'ended_seq', 'last_entry', 'context_used', 'context_total'),
    (),
    {'sid': 1, 'task_id': None, 'reason': None, 'detail': None, 'input_tokens': 0, 'output_tokens': 0, 'total_tokens': 0, 'cached_input_tokens': 0, 'cache_creation_tokens': 0, 'reasoning_tokens': 0, 'calls': 0, 'ended_seq': None, 'last_entry': None, 'context_used': None, 'context_total': None},
)
INSERT_RECEIPT = Statement(
    'INSERT INTO receipt (sid, request_id, target_id, type, digest, result, seq) VALUES (?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'request_id', 'target_id', 'type', 'digest', 'result', 'seq'),
    ('result',),
    {'sid': 1, 'result': None},
)
INSERT_INBOX = Statement(
    'INSERT INTO inbox (sid, id, target_id, request_id, mode, state, content, turn_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'id', 'target_id', 'request_id', 'mode', 'state', 'content', 'turn_id'),
    ('content',),
    {'sid': 1, 'turn_id': None},
)
INSERT_TASK = Statement(
    'INSERT INTO task (id, target_id, owner_task, turn_id, name, version, status, phase, checkpoint, input, outcome, call_id, tool, replay, background, abort_requested, wait_policy, wake_at, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('id', 'target_id', 'owner_task', 'turn_id', 'name', 'version', 'status', 'phase', 'checkpoint', 'input', 'outcome', 'call_id', 'tool', 'replay', 'background', 'abort_requested', 'wait_policy', 'wake_at', 'seq'),
    ('checkpoint', 'input', 'outcome'),
    {'owner_task': None, 'turn_id': None, 'version': 1, 'checkpoint': None, 'input': None, 'outcome': None, 'call_id': None, 'tool': None, 'replay': None, 'background': False, 'abort_requested': False, 'wait_policy': None, 'wake_at': None},
)
INSERT_TASK_WAIT = Statement(
    'INSERT INTO task_wait (task_id, on_id) VALUES (?, ?)',
    ('task_id', 'on_id'),
)
INSERT_MEMO = Statement(
    'INSERT INTO memo (task_id, name, value) VALUES (?, ?, ?)',
    ('task_id', 'name', 'value'),
    ('value',),
    {'value': None},
)
INSERT_PROGRESS = Statement(
    'INSERT INTO progress (stream, n, block, kind, delta) VALUES (?, ?, ?, ?, ?)',
    ('stream', 'n', 'block', 'kind', 'delta'),
)
INSERT_DECISION = Statement(
    'INSERT INTO decision (sid, id, request_id, target_id, turn_id, task_id, kind, prompt, state, answer, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'id', 'request_id', 'target_id', 'turn_id', 'task_id', 'kind', 'prompt', 'state', 'answer', 'seq'),
    ('prompt', 'answer'),
    {'sid': 1, 'turn_id': None, 'task_id': None, 'answer': None},
)
INSERT_USAGE_RECORD = Statement(
    'INSERT INTO usage_record (sid, turn_id, record_id, target_id, task_id, model, input_tokens, output_tokens, cached_input_tokens, cache_creation_tokens, reasoning_tokens, calls, cost, seq, provider) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('sid', 'turn_id', 'record_id', 'target_id', 'task_id', 'model', 'input_tokens', 'output_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'cost', 'seq', 'provider'),
    (),
    {'sid': 1, 'task_id': None, 'input_tokens': 0, 'output_tokens': 0, 'cached_input_tokens': 0, 'cache_creation_tokens': 0, 'reasoning_tokens': 0, 'calls': 0, 'cost': None, 'provider': ''},
)
INSERT_USAGE_TOTAL = Statement(
    'INSERT INTO usage_total (target_id, model, input_tokens, output_tokens, cached_input_tokens, cache_creation_tokens, reasoning_tokens, calls, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ('target_id', 'model', 'input_tokens', 'output_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'cost'),
    (),
    {'input_tokens': 0, 'output_tokens': 0, 'cached_input_tokens': 0, 'cache_creation_tokens': 0, 'reasoning_tokens': 0, 'calls': 0, 'cost': None},
)
INSERT_DOCUMENT = Statement(
    'INSERT INTO document (id, scope, owner_id, kind, "key", version, value, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    ('id', 'scope', 'owner_id', 'kind', 'key', 'version', 'value', 'seq'),
    ('value',),
    {'version': 1, 'value': None},
)
INSERT_DOCUMENT_PAST = Statement(
    'INSERT INTO document_past (document_id, seq, value) VALUES (?, ?, ?)',
    ('document_id', 'seq', 'value'),
    ('value',),
    {'value': None},
)
INSERT_RECORD = Statement(
    'INSERT INTO record (id, target_id, kind, data, seq) VALUES (?, ?, ?, ?, ?)',
    ('id', 'target_id', 'kind', 'data', 'seq'),
    ('data',),
)
INSERT_CATALOG = Statement(
    'INSERT INTO catalog (sid, catalog_id, fingerprint, tools) VALUES (?, ?, ?, ?)',
    ('sid', 'catalog_id', 'fingerprint', 'tools'),
    ('tools',),
    {'sid': 1},
)
INSERT_ACTIVITY = Statement(
    'INSERT INTO activity (id, target_id, turn_id, task_id, seq, type, data) VALUES (?, ?, ?, ?, ?, ?, ?)',
    ('id', 'target_id', 'turn_id', 'task_id', 'seq', 'type', 'data'),
    ('data',),
    {'turn_id': None, 'task_id': None, 'data': None},
)
COUNTERS = Statement(
    'SELECT meta.seq, meta.next_id FROM meta WHERE meta.sid = ?',
    ('sid',),
    (),
    {'sid': 1},
)
OWN = Statement(
    'UPDATE meta SET owner_id=? WHERE meta.sid = ?',
    ('owner_id', 'sid'),
    (),
    {'sid': 1},
)
FENCE = Statement(
    'UPDATE meta SET next_id=?, seq=? WHERE meta.sid = ? AND meta.owner_id = ? AND meta.seq = ?',
    ('nid', 'now', 'sid', 'me', 'was'),
    (),
    {'sid': 1},
)
ABOUT = Statement(
    'SELECT meta.schema_version, meta.seq, meta.owner_id, meta.session_id, meta.project, meta.conversation_id, meta.session_key, meta.main_target, meta.environment_id, meta.created_at FROM meta WHERE meta.sid = ?',
    ('sid',),
    (),
    {'sid': 1},
)
SESSION = Statement(
    'SELECT meta.sid, meta.schema_version, meta.next_id, meta.seq, meta.owner_id, meta.session_id, meta.project, meta.conversation_id, meta.session_key, meta.main_target, meta.environment_id, meta.created_at FROM meta WHERE meta.sid = ?',
    ('sid',),
    (),
    {'sid': 1},
)
SESSION_CREATE = Statement(
    'UPDATE meta SET session_id=?, project=?, conversation_id=?, session_key=?, created_at=? WHERE meta.sid = ?',
    ('session_id', 'project', 'conversation_id', 'session_key', 'created_at', 'sid'),
    (),
    {'sid': 1},
)
TARGET = Statement(
    'SELECT target.id, target.kind, target.parent_id, target.fork_entry, target.owner_task, target.ancestry, target.head_entry, target.tip_entry, target.model, target.effort, target.config_version, target.provider_session, target.context_used, target.context_total, target.deleted FROM target WHERE target.id = ?',
    ('id',),
)
CONTEXT = Statement(
    'SELECT entry.id, entry.message FROM entry WHERE entry.target_id = ? AND entry.id >= ? ORDER BY entry.id',
    ('target_id', 'head'),
)
LIVE_TASKS = Statement(
    "SELECT task.id, task.target_id, task.owner_task, task.turn_id, task.name, task.status, task.phase, task.checkpoint, task.input, task.call_id, task.tool, task.replay, task.abort_requested, task.wake_at FROM task WHERE status <> 'terminal' ORDER BY task.id",
)
TURN = Statement(
    'SELECT turn.id, turn.target_id, turn.request_id, turn.task_id, turn.status, turn.reason, turn.detail, turn.input_tokens, turn.output_tokens, turn.cached_input_tokens, turn.cache_creation_tokens, turn.reasoning_tokens, turn.calls, turn.last_entry, turn.context_used, turn.context_total FROM turn WHERE turn.id = ?',
    ('id',),
)
RECEIPT = Statement(
    'SELECT receipt.type, receipt.digest, receipt.result FROM receipt WHERE receipt.sid = ? AND receipt.request_id = ?',
    ('sid', 'request_id'),
    (),
    {'sid': 1},
)
TURN_END = Statement(
    'UPDATE turn SET status=?, reason=?, detail=?, input_tokens=?, output_tokens=?, total_tokens=?, cached_input_tokens=?, cache_creation_tokens=?, reasoning_tokens=?, calls=?, ended_seq=?, last_entry=?, context_used=?, context_total=? WHERE turn.id = ?',
    ('status', 'reason', 'detail', 'input_tokens', 'output_tokens', 'total_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'ended_seq', 'last_entry', 'context_used', 'context_total', 'id'),
)
TURN_REOPEN = Statement(
    "UPDATE turn SET task_id=?, status='running', reason=NULL, detail=NULL, ended_seq=NULL WHERE turn.id = ?",
    ('task_id', 'id'),
)
TURN_USAGE = Statement(
    'UPDATE turn SET input_tokens=(turn.input_tokens + ?), output_tokens=(turn.output_tokens + ?), total_tokens=(turn.total_tokens + ?), cached_input_tokens=(turn.cached_input_tokens + ?), cache_creation_tokens=(turn.cache_creation_tokens + ?), reasoning_tokens=(turn.reasoning_tokens + ?), calls=(turn.calls + ?) WHERE turn.id = ?',
    ('input_tokens', 'output_tokens', 'total_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'id'),
)
USAGE_TOTAL = Statement(
    'INSERT INTO usage_total (target_id, model, input_tokens, output_tokens, cached_input_tokens, cache_creation_tokens, reasoning_tokens, calls, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (target_id, model) DO UPDATE SET input_tokens = (usage_total.input_tokens + excluded.input_tokens), output_tokens = (usage_total.output_tokens + excluded.output_tokens), cached_input_tokens = (usage_total.cached_input_tokens + excluded.cached_input_tokens), cache_creation_tokens = (usage_total.cache_creation_tokens + excluded.cache_creation_tokens), reasoning_tokens = (usage_total.reasoning_tokens + excluded.reasoning_tokens), calls = (usage_total.calls + excluded.calls), cost = (usage_total.cost + excluded.cost)',
    ('target_id', 'model', 'input_tokens', 'output_tokens', 'cached_input_tokens', 'cache_creation_tokens', 'reasoning_tokens', 'calls', 'cost'),
)
TARGET_TIP = Statement(
    'UPDATE target SET tip_entry=? WHERE target.id = ?',
    ('tip_entry', 'id'),
)
TARGET_HEAD = Statement(
    'UPDATE target SET head_entry=?, tip_entry=?, context_used=? WHERE target.id = ?',
    ('head_entry', 'tip_entry', 'context_used', 'id'),
)
TARGET_CONTEXT = Statement(
    'UPDATE target SET tip_entry=?, context_used=?, context_total=? WHERE target.id = ?',
    ('tip_entry', 'context_used', 'context_total', 'id'),
)
TASK = Statement(
    'SELECT task.id, task.target_id, task.owner_task, task.turn_id, task.name, task.status, task.phase, task.checkpoint, task.input, task.call_id, task.tool, task.replay, task.abort_requested, task.wake_at FROM task WHERE task.id = ?',
    ('id',),
)
TASK_STEP = Statement(
    'UPDATE task SET status=?, phase=?, checkpoint=?, wake_at=?, seq=? WHERE task.id = ?',
    ('status', 'phase', 'checkpoint', 'wake_at', 'seq', 'id'),
    ('checkpoint',),
)
TASK_END = Statement(
    "UPDATE task SET status='terminal', phase='end', checkpoint=NULL, outcome=?, wake_at=NULL, seq=? WHERE task.id = ?",
    ('outcome', 'seq', 'id'),
    ('outcome',),
)
TASK_ABORT = Statement(
    'UPDATE task SET abort_requested=1 WHERE task.id = ?',
    ('id',),
)
TASKS_PENDING = Statement(
    "UPDATE task SET status='pending' WHERE status <> 'terminal' AND task.status = 'running'",
)
WAITERS = Statement(
    'SELECT task_wait.task_id FROM task_wait WHERE task_wait.on_id = ? ORDER BY task_wait.task_id',
    ('on_id',),
)
WAITS_LEFT = Statement(
    'SELECT task_wait.on_id FROM task_wait WHERE task_wait.task_id = ?  LIMIT 1 OFFSET 0',
    ('task_id',),
)
WAIT_DONE = Statement(
    'DELETE FROM task_wait WHERE task_wait.on_id = ?',
    ('on_id',),
)
WAITS_DROPPED = Statement(
    'DELETE FROM task_wait WHERE task_wait.task_id = ?',
    ('task_id',),
)
PROGRESS = Statement(
    'SELECT progress.block, progress.kind, progress.delta FROM progress WHERE progress.stream = ? ORDER BY progress.n',
    ('stream',),
)
PROGRESS_DONE = Statement(
    'DELETE FROM progress WHERE progress.stream = ?',
    ('stream',),
)
TURN_ENTRIES = Statement(
    'SELECT entry.id, entry.task_id, entry.message FROM entry WHERE entry.target_id = ? AND entry.id > ? AND entry.id <= ? AND entry.turn_id = ? ORDER BY entry.id',
    ('target_id', 'after', 'last', 'turn_id'),
)
TURN_ACTIVITY = Statement(
    'SELECT activity.id, activity.task_id, activity.type, activity.data FROM activity WHERE activity.turn_id = ? ORDER BY activity.id',
    ('turn_id',),
)
TURN_RECORDS = Statement(
    'SELECT usage_record.sid, usage_record.turn_id, usage_record.record_id, usage_record.target_id, usage_record.task_id, usage_record.model, usage_record.input_tokens, usage_record.output_tokens, usage_record.cached_input_tokens, usage_record.cache_creation_tokens, usage_record.reasoning_tokens, usage_record.calls, usage_record.cost, usage_record.seq, usage_record.provider FROM usage_record WHERE usage_record.sid = ? AND usage_record.turn_id = ? ORDER BY usage_record.seq',
    ('sid', 'turn_id'),
    (),
    {'sid': 1},
)
TURNS = Statement(
    'SELECT turn.id, turn.target_id, turn.request_id, turn.task_id, turn.status, turn.reason, turn.detail, turn.input_tokens, turn.output_tokens, turn.cached_input_tokens, turn.cache_creation_tokens, turn.reasoning_tokens, turn.calls, turn.last_entry, turn.context_used, turn.context_total FROM turn WHERE turn.id > ? ORDER BY turn.id',
    ('after',),
)
TURN_COUNT = Statement(
    'SELECT count(*) AS count_1 FROM turn WHERE turn.id > ?',
    ('after',),
)
LAST_TURN = Statement(
    'SELECT turn.id, turn.target_id, turn.request_id, turn.task_id, turn.status, turn.reason, turn.detail, turn.input_tokens, turn.output_tokens, turn.cached_input_tokens, turn.cache_creation_tokens, turn.reasoning_tokens, turn.calls, turn.last_entry, turn.context_used, turn.context_total FROM turn WHERE turn.id > ? ORDER BY turn.id DESC  LIMIT 1 OFFSET 0',
    ('after',),
)
ENTRIES = Statement(
    'SELECT entry.turn_id, entry.message FROM entry WHERE entry.target_id = ? AND entry.id > ? ORDER BY entry.id',
    ('target_id', 'after'),
)
