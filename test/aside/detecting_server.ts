/** The loops of detection and of webhooks on a data directory, with fake detectors, to be killed: see fault/detection. */
import { armFailpoint } from "../../src/platform/failpoint.ts";
import { detecting } from "../detection_kit.ts";
import { TLS_FLAGS } from "../webhooks_kit.ts";

const [dir = ""] = process.argv.slice(2);
const app = detecting({ dir, flags: TLS_FLAGS, loops: ["detection.batches", "webhooks.deliver"] });
await app.ctx.supervisor.sweep();
armFailpoint(process.env["VERK_FAILPOINT"]);
setInterval(() => {}, 1_000);
