# tries: Node with its threads, timers and files
# needs: node
# expect: exit 0
exec node -e '
const { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
require("fs").writeFileSync("/tmp/a", "x".repeat(1000));
console.log(require("fs").statSync("/tmp/a").size, execFileSync("echo", ["hello"]).toString());
console.log(require("crypto").createHash("sha256").update("a").digest("hex"));
new Worker("require(\"worker_threads\").parentPort.postMessage(6 * 7)", { eval: true })
    .on("message", (answer) => setTimeout(() => console.log(answer), 1));
'
