"""What requests that are made up cannot know: workflows that are there, runs that were begun, tokens
that were handed out, files that were written, artifacts that were left. Loaded by schemathesis;
parts of a request that are wrong on purpose are left alone.

At the end the operations are counted that were never answered as asked: a host that refuses
everything would pass every check otherwise.
"""

import atexit
import collections
import os
import random

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

# The last node is the one that answers can be for.
WORKFLOWS = {"plain": "a", "chain": "c", "slow": "a", "asks": "gate", "quiz": "ask", "parent": "call"}
ENDING = ("plain", "chain", "parent")
# What somebody might answer.
ANSWERS = ({"action": "accept"}, {"action": "reject"}, {"answers": {"q1": "this one"}})
# Operations that cannot succeed here, and why.
EXCUSED = {}
MOST = 300
# Resolves to nothing, so that nothing is sent there.
URL = "https://hooks.example.invalid/told"
FILES = "/v1/host/workspace/files"

chance = random.Random(7)
runs = {}
webhooks = []
succeeded = collections.Counter()
seen = collections.Counter()


def right(case, location):
    """Whether a part is meant to be right."""
    return case.meta is not None and not case.meta.is_negative_at(location)


def ask(method, path, body=None):
    headers = {"Authorization": f"Bearer {os.environ['COUNTERSIGN_CLIENT_KEY']}"}
    url = os.environ["COUNTERSIGN_CLIENT_URL"] + path
    answer = requests.request(method, url, headers=headers, json=body, timeout=10)
    assert answer.ok, answer.text
    return answer.json()


def registered():
    """A webhook that is there."""
    if not webhooks:
        webhooks.append(ask("POST", "/v1/webhooks", {"url": URL})["webhookId"])
    return webhooks.pop()


def written(case):
    """A file that is there, and perhaps the version of it that was seen."""
    path = f"notes/{chance.randrange(20)}.md"
    file = ask("PUT", f"{FILES}/{path}", {"content": "so it is"})
    case.path_parameters["path"] = path
    if "If-Match" in (case.headers or {}) and right(case, ParameterLocation.HEADER):
        case.headers["If-Match"] = chance.choice(("*", file["etag"]))
    if "version" in (case.query or {}) and right(case, ParameterLocation.QUERY):
        case.query["version"] = file["version"]


def left(case):
    """An artifact that is there, told or as bytes."""
    run, artifact = os.environ["COUNTERSIGN_CLIENT_ARTIFACT"].split("/")
    case.path_parameters.update(runId=run, artifactId=artifact)
    if right(case, ParameterLocation.HEADER) and chance.random() < 0.5:
        case.headers["Accept"] = "application/octet-stream"


def begin(workflow):
    if len(runs) >= MOST:
        runs.pop(chance.choice(list(runs)))
    run = ask("POST", "/v1/runs", {"workflowId": workflow})["runId"]
    runs[run] = workflow
    return run


def asking(path):
    """A run that waits for an answer, by its node or by its token."""
    workflow = chance.choice(("asks", "quiz"))
    run = begin(workflow)
    if "token" in path:
        path["token"] = ask("GET", f"/v1/runs/{run}")["interrupt"]["interruptToken"]
    else:
        path["runId"], path["nodeId"] = run, WORKFLOWS[workflow]


def is_linked(case):
    """In a chain of requests, where a value was taken from an answer."""
    return case.meta is not None and case.meta.phase.name.value == "stateful"


@schemathesis.hook
def before_call(context, case, **kwargs):
    path = case.path_parameters or {}
    if right(case, ParameterLocation.PATH) and not is_linked(case) and chance.random() < 0.8:
        if "nodeId" in path or "token" in path:
            asking(path)
        elif case.operation.path.endswith((":pause", ":resume")) and chance.random() < 0.7:
            path["runId"] = begin("slow")
            if case.operation.path.endswith(":resume"):
                ask("POST", f"/v1/runs/{path['runId']}:pause", {"drainPolicy": "immediate"})
        elif "artifactId" in path:
            left(case)
        elif "webhookId" in path:
            path["webhookId"] = registered()
        elif "path" in path:
            written(case)
        elif "runId" in path:
            path["runId"] = chance.choice(list(runs))
        elif "workflowId" in path:
            path["workflowId"] = chance.choice(list(WORKFLOWS))
    if "against" in (case.query or {}) and right(case, ParameterLocation.QUERY):
        case.query["against"] = chance.choice(list(runs))
    if "tenantId" in (case.query or {}) and right(case, ParameterLocation.QUERY):
        case.query["tenantId"] = chance.choice(("one", "one", "two"))
    bounded(case)
    if isinstance(case.body, dict) and right(case, ParameterLocation.BODY):
        body(case)


def bounded(case):
    """Runs that never end are read as lists, and waited for no longer than a second."""
    run = (case.path_parameters or {}).get("runId")
    if case.operation.path.endswith("/events") and runs.get(run) not in ENDING:
        if right(case, ParameterLocation.HEADER):
            case.headers["Accept"] = "application/json"
        elif run in runs:
            case.path_parameters["runId"] = begin("plain")
    if case.operation.path.endswith("/events/poll"):
        if right(case, ParameterLocation.QUERY) or "timeout" not in case.query:
            case.query = {**(case.query or {}), "timeout": 1}


def body(case):
    if "workflowId" in case.body:
        case.body["workflowId"] = chance.choice(list(WORKFLOWS))
    if case.body.get("tenantId") is not None and chance.random() < 0.8:
        case.body["tenantId"] = "one"
    for name in ("url", "callbackUrl"):
        # Where a name leads is judged, which no pattern can say.
        if case.body.get(name) is not None:
            case.body[name] = URL
    if None not in (case.body.get("events"), case.body.get("eventTypes")):
        # Both only if they say the same.
        case.body["eventTypes"] = case.body["events"]
    if isinstance(case.body.get("target"), dict):
        anchored(case)
    if "resumeValue" in case.body and chance.random() < 0.7:
        case.body["resumeValue"] = chance.choice(ANSWERS)
    if isinstance(case.body.get("fromSeq"), int) and chance.random() < 0.7:
        case.body["fromSeq"] = chance.randrange(4)
    if isinstance(case.body.get("runIds"), list) and chance.random() < 0.7:
        case.body["runIds"] = [chance.choice(list(runs)), *case.body["runIds"][:5]]


def anchored(case):
    """What an annotation is about has to be there."""
    run, target = (case.path_parameters or {}).get("runId"), case.body["target"]
    if target.get("eventId") is not None:
        target["eventId"] = f"{run}-e0"
    if target.get("nodeId") is not None:
        target["nodeId"] = WORKFLOWS.get(runs.get(run))


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw["operationId"]
    seen[operation] += 1
    if not 200 <= response.status_code < 300:
        return
    succeeded[operation] += 1
    if operation == "registerWebhook":
        webhooks.append(response.json()["webhookId"])


for each in 4 * list(WORKFLOWS):
    begin(each)


@atexit.register
def tell():
    told = ", ".join(f"{name} {succeeded[name]}/{seen[name]}" for name in sorted(seen))
    print(f"\nsucceeded: {told}")
    never = sorted(name for name in seen if not succeeded[name] and name not in EXCUSED)
    if never:
        print(f"never succeeded: {', '.join(never)}", flush=True)
        os._exit(3)
