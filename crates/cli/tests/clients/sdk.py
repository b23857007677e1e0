"""Every method of the published client `openwop-client`, against a real host.

Run with the address of the host and a key of all scopes of the protocol:

    PYTHONPATH=<where it is installed> python3 sdk.py URL KEY

What the host says in its discovery document has to work; what it does not say has to be refused in
the way that the protocol documents. At the end the methods that were called are compared with those
that the package has: one that was left out is a failure, as is one that this script knows and the
package does not have.
"""

import base64
import http.server
import inspect
import sys
import threading
import time
import urllib.error
import warnings

import openwop_client as sdk
from openwop_client import WopError

HOST, KEY = sys.argv[1], sys.argv[2]
TENANT = "one"
ENDS = ("completed", "failed", "cancelled")

# What this host does not offer, whatever it advertises: asserted to be refused, and why.
NOT_OFFERED = {
    "content_list_pages": "localised content came after the version of the protocol served here",
    "content_get_page": "as above",
    "content_create_page": "as above",
    "content_delete_page": "as above",
    "content_put_section": "as above",
    "content_get_settings": "as above",
    "content_put_settings": "as above",
    "create_trigger_subscription": "runs are begun by clients; nothing here listens to other systems",
    "agents_list": "agents are principals outside of this host, which it does not run",
    "agents_get": "as above",
    "agents_list_deployments": "as above",
    "agents_transition_deployment": "as above",
    "agents_list_roster": "as above",
    "agents_get_roster_entry": "as above",
    "agents_get_org_chart": "as above",
    "agents_get_org_chart_department": "as above",
    "runs_eval_summary": "runs are not scored here",
    "prompts_list": "prompts belong to whoever calls models, which this host does not do",
    "prompts_get": "as above",
    "prompts_create": "as above",
    "prompts_update": "as above",
    "prompts_delete": "as above",
    "prompts_render": "as above",
    "RegistryClient.discovery": "this host is no registry of packs",
    "RegistryClient.index": "as above",
    "RegistryClient.pack": "as above",
    "RegistryClient.version": "as above",
    "RegistryClient.tarball": "as above",
    "RegistryClient.signature": "as above",
    "RegistryClient.public_key": "as above",
}

called = set()


class Watched:
    """Hands every call on and remembers its name."""

    def __init__(self, target, prefix=""):
        self._target, self._prefix = target, prefix

    def __getattr__(self, name):
        value = getattr(self._target, name)
        if inspect.isroutine(value):
            called.add(self._prefix + name)
        return value


def surface():
    """The public methods of the two clients, and the public functions of the package."""
    names = set()
    for kind, prefix in ((sdk.OpenwopClient, ""), (sdk.RegistryClient, "RegistryClient.")):
        for name, value in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_"):
                names.add(prefix + name)
    names.update(name for name in sdk.__all__ if inspect.isfunction(getattr(sdk, name)))
    return names


client = Watched(sdk.OpenwopClient(HOST, KEY))
package = Watched(sdk)
found = client._target._request_json("GET", "/.well-known/openwop", authenticated=False)


def advertised(family):
    return bool(found.get(family, {}).get("supported"))


def refused(statuses, call, *args, **options):
    """The refusal, which has to be an envelope with a trace."""
    try:
        answer = call(*args, **options)
    except WopError as error:
        assert error.status in statuses, (error.status, error.raw_text)
        assert error.envelope is not None and error.envelope.message, error.raw_text
        assert error.trace_id is not None, "an answer tells its trace"
        return error.envelope
    raise AssertionError(f"{call.__name__} was not refused: {answer!r}")


def absent(call, *args, **options):
    """What is not offered: the client says `None` or `False`, or tells the documented refusal."""
    try:
        answer = call(*args, **options)
    except WopError as error:
        assert error.status in (404, 501), (call.__name__, error.status, error.raw_text)
        assert error.envelope.error in ("not_found", "capability_not_provided"), error.raw_text
        return
    assert answer is None or answer is False, (call.__name__, answer)


def start(workflow, **options):
    return client.runs_create(sdk.CreateRunRequest(workflowId=workflow, **options)).runId


def until(run, is_so, seconds=30.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        shown = client.runs_get(run)
        if is_so(shown.status):
            return shown
        time.sleep(0.02)
    raise AssertionError(f"{run} is still {shown.status}")


def ended(run):
    return until(run, lambda status: status in ENDS)


def documents():
    told = client.discovery_capabilities()
    assert told.protocolVersion.startswith("1."), told
    assert told.limits.envelopesPerTurn >= 0 and told.limits.maxRequestBodyBytes > 0, told
    document = client.discovery_openapi()
    assert document["openapi"].startswith("3.1"), document["openapi"]
    assert "/v1/runs/{runId}:fork" in document["paths"]
    workflow = client.workflows_get("chain")
    assert [node["id"] for node in workflow["nodes"]] == ["a", "b", "c"], workflow
    assert refused((404,), client.workflows_get, "nothing").error == "workflow_not_found"
    stranger = sdk.OpenwopClient(HOST, "csk_of_nobody")
    assert refused((401,), stranger.workflows_get, "chain").error == "unauthenticated"


def whole_run():
    """From its beginning to its end, its events in every way, and what can be asked of it later."""
    body = sdk.CreateRunRequest(
        workflowId="chain", inputs={"colour": "green"}, tags=["sdk"], metadata={"ticket": 7}
    )
    begun = client.runs_create(body, idempotency_key="sdk-1")
    again = client.runs_create(body, idempotency_key="sdk-1")
    assert begun.runId == again.runId and begun.eventsUrl == f"/v1/runs/{begun.runId}/events"
    other = sdk.CreateRunRequest(workflowId="asks")
    assert refused((409,), client.runs_create, other, idempotency_key="sdk-1")
    shown = ended(begun.runId)
    assert (shown.status, shown.workflowId) == ("completed", "chain"), shown
    assert shown.variables["colour"] == "green" and shown.error is None, shown
    polled = client.runs_poll_events(begun.runId, timeout_seconds=1)
    assert polled.isComplete
    assert [event.sequence for event in polled.events] == list(range(len(polled.events)))
    tail = client.runs_poll_events(begun.runId, last_sequence=2, timeout_seconds=1)
    assert tail.events == polled.events[3:]
    streamed = list(client.runs_events(begun.runId, stream_mode="debug"))
    assert streamed == polled.events, "streamed and polled are the same"
    resumed = client.runs_events(
        begun.runId, stream_mode=["debug", "updates"], last_event_id="2", buffer_ms=50
    )
    assert list(resumed) == polled.events[3:]
    states = list(client.runs_events(begun.runId, stream_mode="values"))
    assert states[-1].payload["status"] == "completed", states[-1:]
    assert {event.type for event in states} == {"state.snapshot"}, states
    direct = package.stream_events(HOST, KEY, begun.runId, stream_mode="updates")
    assert [event.type for event in direct][-1] == "run.completed"
    return begun.runId, polled.events


def looked_at(run, events):
    bundle = client.runs_debug_bundle(run)
    assert len(bundle.events) == len(events) and bundle.run["runId"] == run
    assert bundle.redactionApplied and bundle.redactionMode == "mask" and not bundle.truncated
    short = client.runs_debug_bundle(run, max_events=1)
    assert len(short.events) == 1 and short.truncated, short
    ancestry = client.runs_ancestry(run)
    assert ancestry.runId == run and ancestry.parent is None and ancestry.hostId
    replay = client.runs_fork(run, sdk.ForkRunRequest(fromSeq=3, mode="replay"))
    assert (replay.sourceRunId, replay.mode, replay.fromSeq) == (run, "replay", 3), replay
    assert ended(replay.runId).status == "completed"
    same = client.runs_diff(run, replay.runId)
    assert same.divergedAtSeq is None and same.eventDiffs == [], same
    late = sdk.ForkRunRequest(fromSeq=99999, mode="branch")
    assert refused((422,), client.runs_fork, run, late).error == "validation_error"
    assert client.runs_diff(run, "run-nowhere") is None
    parent = start("parent")
    children = ended(parent)
    assert children.status == "completed", children
    child = client._target._request_json("GET", f"/v1/runs/{parent}")["childRuns"][0]["runId"]
    assert client.runs_ancestry(child).parent.runId == parent


def questions():
    """Answered by the node and by the token, each once."""
    run = start("asks")
    until(run, lambda status: status == "waiting-approval")
    refusal = refused((400,), client.interrupts_resolve_by_run, run, "gate", answer("sing"))
    assert refusal.error == "validation_error", refusal
    taken = client.interrupts_resolve_by_run(run, "gate", answer("accept"))
    assert (taken.runId, taken.nodeId) == (run, "gate"), taken
    assert ended(run).status == "completed"
    assert refused((409, 410), client.interrupts_resolve_by_run, run, "gate", answer("accept"))
    run = start("asks")
    until(run, lambda status: status == "waiting-approval")
    shown = client._target._request_json("GET", f"/v1/runs/{run}")
    token = shown["interrupt"]["interruptToken"]
    asked = client.interrupts_inspect_by_token(token)
    assert asked.kind == "approval" and asked.data["actions"] == ["accept", "reject"], asked
    assert client.interrupts_resolve_by_token(token, answer("accept"))["runId"] == run
    assert ended(run).status == "completed"
    again = refused((409, 410), client.interrupts_resolve_by_token, token, answer("accept"))
    assert again.error in ("interrupt_gone", "interrupt_already_resolved"), again
    assert refused((404,), client.interrupts_inspect_by_token, "no.token")


def answer(action):
    return sdk.ResolveInterruptRequest(resumeValue={"action": action})


def stopped():
    run = start("slow")
    paused = client.runs_pause(run, sdk.PauseRunRequest(reason="lunch", drainPolicy="immediate"))
    assert paused.status == "paused" and paused.pausedAt, paused
    until(run, lambda status: status == "paused")
    resumed = client.runs_resume(run, sdk.ResumeRunRequest(reason="back"))
    assert resumed.status == "running" and resumed.resumedAt, resumed
    assert refused((409,), client.runs_resume, run).details["runStatus"]
    gone = client.runs_cancel(run, sdk.CancelRunRequest(reason="enough"), idempotency_key="stop")
    assert gone.status in ("cancelled", "cancelling"), gone
    assert ended(run).status == "cancelled"
    scoped = sdk.CreateRunRequest(workflowId="slow", scopeId="one at a time")
    first = client.runs_create(scoped, dedup=True).runId
    second = refused((409,), client.runs_create, scoped, dedup=True)
    assert second.details["activeRunId"] == first, second
    many = [first, start("slow"), "run-nowhere"]
    told = client.runs_bulk_cancel(sdk.BulkCancelRunsRequest(runIds=many, reason="all"))
    assert [one.runId for one in told.results] == many
    assert [one.ok for one in told.results] == [True, True, False], told
    assert told.results[2].error["code"] == "not_found", told


def feedback(run):
    flag = sdk.CreateAnnotationRequest(signal={"kind": "rating", "rating": 4}, note="well done")
    if not advertised("feedback"):
        absent(client.create_annotation, run, flag)
        absent(client.list_annotations, run)
        return
    made = client.create_annotation(run, flag)
    assert made.signal["rating"] == 4 and made.target["runId"] == run and made.createdAt, made
    assert made.actor["principalRef"], made
    listed = client.list_annotations(run)
    assert [one.annotationId for one in listed] == [made.annotationId], listed
    wrong = sdk.CreateAnnotationRequest(signal={"kind": "rating", "rating": 9})
    assert refused((400,), client.create_annotation, run, wrong).error == "validation_error"


def audit():
    if "openwop-audit-log-integrity" not in found.get("auth", {}).get("profiles", []):
        assert refused((404,), client.audit_verify, 0, 10)
        return
    told = client.audit_verify(0, 1_000_000)
    assert told.chainValid and told.anomalies == [] and told.toSeq >= told.fromSeq, told
    for checkpoint in told.checkpoints:
        assert len(bytes.fromhex(checkpoint.merkleRoot)) == 32, checkpoint
        assert len(base64.b64decode(checkpoint.signature)) >= 64, checkpoint


def files():
    put = sdk.PutWorkspaceFileRequest(content="one", contentType="text/plain")
    if not advertised("workspace"):
        absent(client.put_workspace_file, "notes/a.txt", put)
        absent(client.list_workspace_files)
        absent(client.get_workspace_file, "notes/a.txt")
        absent(client.delete_workspace_file, "notes/a.txt")
        return
    first = client.put_workspace_file("notes/a.txt", put)
    assert (first.path, first.content) == ("notes/a.txt", "one") and first.etag, first
    put = sdk.PutWorkspaceFileRequest(content="two", contentType="text/plain")
    second = client.put_workspace_file("notes/a.txt", put, if_match=first.etag)
    assert second.version > first.version, second
    stale = refused(
        (409,), client.put_workspace_file, "notes/a.txt", put, if_match=first.etag
    )
    assert stale.error == "workspace_conflict", stale
    assert client.get_workspace_file("notes/a.txt").content == "two"
    listed = client.list_workspace_files(prefix="notes/")
    assert [one.path for one in listed] == ["notes/a.txt"], listed
    assert client.delete_workspace_file("notes/a.txt") is True
    assert client.get_workspace_file("notes/a.txt") is None
    assert client.delete_workspace_file("notes/a.txt") is False


def artifact(run):
    """What a call left; a run that kept nothing has none."""
    assert client.runs_get_artifact(run, "artifact-nowhere") is None
    differs = start("differs", inputs={"workspace": "app"})
    assert ended(differs).status == "completed", client.runs_get(differs)
    events = client.runs_poll_events(differs, timeout_seconds=1).events
    made = [event.payload for event in events if event.type == "artifact.created"]
    assert made, "the call left something"
    for one in made:
        told = client.runs_get_artifact(differs, one["artifactId"])
        assert (told["name"], told["runId"]) == (one["name"], differs), told
        assert client.runs_get_artifact(run, one["artifactId"]) is None


def tools():
    if not advertised("toolCatalog"):
        for call in (client.tools_list, client.tools_list_compact):
            absent(call)
        absent(client.tools_get, "host:text.digest")
        return
    listed = client.tools_list()
    assert listed, "a catalogue that is advertised has tools"
    assert client.tools_get(listed[0].toolId).toolId == listed[0].toolId
    assert client.tools_get("host:nothing") is None
    if found["toolCatalog"].get("compactView"):
        assert client.tools_list_compact()
    else:
        client.tools_list_compact()


class Receiver(http.server.BaseHTTPRequestHandler):
    got = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Receiver.got.append((dict(self.headers), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def webhooks():
    rotate = sdk.RotateWebhookSecretRequest(secret="whsec_" + base64.b64encode(b"s" * 32).decode())
    if not advertised("webhooks"):
        wanted = sdk.RegisterWebhookRequest(url="https://example.org/hook", events=["run.completed"])
        absent(client.webhooks_register, wanted)
        absent(client.webhooks_unregister, "nothing", TENANT)
        absent(client.webhooks_rotate_secret, "nothing", TENANT, rotate)
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    wanted = sdk.RegisterWebhookRequest(url=url, events=["run.completed"])
    # Private addresses are refused, unless the operator opened them, as for this test.
    made = client.webhooks_register(wanted)
    delivered(made)
    assert made.subscriptionId and made.createdAt and made.eventTypes == ["run.completed"], made
    if not found["webhooks"].get("secretRotation"):
        absent(client.webhooks_rotate_secret, made.subscriptionId, TENANT, rotate)
    client.webhooks_unregister(made.subscriptionId, TENANT)
    gone = refused((404,), client.webhooks_unregister, made.subscriptionId, TENANT)
    assert gone.error == "subscription_not_found", gone
    server.shutdown()


def delivered(made):
    run = start("plain")
    ended(run)
    deadline = time.monotonic() + 20
    while not Receiver.got and time.monotonic() < deadline:
        time.sleep(0.02)
    headers, body = Receiver.got[0]
    assert run in body.decode(), body
    value, stamp, _ = package.read_webhook_headers(headers)
    if "=" not in value:
        value = "sha256=" + value
    assert package.verify_webhook_signature(made.secret, value, stamp, body).valid
    assert not package.verify_webhook_signature(made.secret, value, stamp, body + b" ").valid


def signatures():
    """The helpers of whoever receives webhooks need no host."""
    value, stamp = package.sign_webhook_delivery("secret", int(time.time()), b"{}")
    assert package.parse_signature_value(value) and package.parse_signature_value("x") is None
    read = package.read_webhook_headers({"X-openwop-Signature": value, "x-openwop-timestamp": stamp})
    assert read == (value, stamp, "x-openwop"), read
    assert package.verify_webhook_signature("secret", value, stamp, b"{}").valid
    late = package.verify_webhook_signature("secret", value, stamp, b"{}", now_seconds=2**40)
    assert late.reason == "timestamp_expired", late
    assert package.is_http_error_code("run_already_active")
    assert not package.is_http_error_code("whatever")


# Which events of this host each helper has to find. The others it has to find nowhere.
EVENTS = {
    "agent_reasoned": "agent.reasoned",
    "agent_reasoning_delta": "agent.reasoning.delta",
    "agent_tool_called": "agent.toolCalled",
    "agent_tool_returned": "agent.toolReturned",
    "agent_handoff": "agent.handoff",
    "agent_decided": "agent.decided",
    "output_chunk": "output.chunk",
}


def typed_events():
    mock = {"mockProvider": {"id": "stream-text", "config": {"tokens": ["so ", "it ", "goes"]}}}
    runs = [start("conformance-thinks"), start("conformance-thinks-aloud")]
    runs.append(start("conformance-says", configurable=mock))
    events = []
    for run in runs:
        assert ended(run).status == "completed", client.runs_get(run)
        events += client.runs_poll_events(run, timeout_seconds=1).events
    helpers = [name for name in sdk.__all__ if name.startswith("is_") and name != "is_http_error_code"]
    assert len(helpers) >= 19, helpers
    for helper in helpers:
        stem = helper.removeprefix("is_")
        fits, read = getattr(package, helper), getattr(package, stem + "_payload")
        kind = EVENTS.get(stem)
        matching = [event for event in events if fits(event)]
        assert {event.type for event in matching} == ({kind} if kind else set()), (helper, matching)
        assert all(read(event) == (event.payload if fits(event) else None) for event in events)


def not_offered(run):
    page = sdk.LocalizedContentPage("p", "s", "n", "draft", [])
    settings = sdk.LocalizedContentLanguageSettings("en", ["en"], False)
    template = sdk.PromptTemplate(templateId="t", version="1.0.0", kind="user", text="hello")
    deployment = sdk.AgentDeploymentTransition(version="1.0.0", transition="promote")
    trigger = sdk.TriggerSubscriptionRegistration(source={"type": "queue"}, workflowId="plain")
    arguments = {
        "content_get_page": ["home"],
        "content_create_page": [page],
        "content_delete_page": ["p"],
        "content_put_section": ["p", "s", sdk.PutContentSectionRequest("en", {})],
        "content_put_settings": [settings],
        "create_trigger_subscription": [trigger],
        "agents_get": ["a"],
        "agents_list_deployments": ["a"],
        "agents_transition_deployment": ["a", deployment],
        "agents_get_roster_entry": ["r"],
        "agents_get_org_chart_department": ["d"],
        "runs_eval_summary": [run],
        "prompts_get": ["t"],
        "prompts_create": [template],
        "prompts_update": ["t", template],
        "prompts_delete": ["t"],
        "prompts_render": [sdk.RenderPromptRequest(ref="prompt:t", variables={})],
    }
    for name in (name for name in NOT_OFFERED if "." not in name):
        absent(getattr(client, name), *arguments.get(name, []))
    registry = Watched(sdk.RegistryClient(base_url=HOST), "RegistryClient.")
    pack = {"pack": ["p"], "version": ["p", "1"], "tarball": ["p", "1"], "signature": ["p", "1"]}
    arguments = {**pack, "public_key": ["k"]}
    for name in (name for name in NOT_OFFERED if "." in name):
        name = name.removeprefix("RegistryClient.")
        try:
            got = getattr(registry, name)(*arguments.get(name, []))
        except urllib.error.HTTPError as error:
            # Without a key nobody learns what is there; packs are plainly not.
            text = error.read().decode()
            assert error.code == (404 if name in pack else 401), (name, error.code)
            assert name not in pack or "{" not in text, (name, text)
            continue
        raise AssertionError(f"{name}: {got!r}")


def main():
    warnings.simplefilter("error")
    documents()
    run, events = whole_run()
    looked_at(run, events)
    questions()
    stopped()
    feedback(run)
    audit()
    files()
    artifact(run)
    tools()
    webhooks()
    signatures()
    typed_events()
    not_offered(run)
    has = surface()
    assert has <= called, f"never called: {sorted(has - called)}"
    assert set(NOT_OFFERED) <= has, f"not in the package: {sorted(set(NOT_OFFERED) - has)}"
    families = [family for family in ("feedback", "webhooks", "workspace", "toolCatalog")
                if advertised(family)]
    print(f"{len(has)} methods and functions of openwop-client {sdk.__version__}, "
          f"{len(NOT_OFFERED)} of them refused as they should; also offered: {families}")


main()
