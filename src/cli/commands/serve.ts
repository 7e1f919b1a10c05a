import type { RunningServer } from "../../app.ts";
import { VERSION } from "../../lib/version.ts";
import { groups } from "../../native/bundle/embedded.ts";
import { configFile, exposedSecrets, sayExposed } from "../../platform/config/config.ts";
import { isJsonLog } from "../../platform/log.ts";
import { descriptorsOf, fewDescriptors } from "../../platform/machine/descriptors.ts";
import { findGpus } from "../../platform/machine/gpu_presence.ts";
import { raisePriority } from "../../platform/machine/priority.ts";
import { plainExposure } from "../../platform/tls/exposure.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG } from "../args.ts";
import { sentence, unusedGpu } from "../doctor/gpu_advice.ts";
import { openDataDir } from "../open_data_dir.ts";
import { note } from "../output.ts";
import { settingsOf } from "../settings.ts";

export const serve = command({
  summary: "Run the server until SIGTERM or Ctrl-C; a second signal stops it at once",
  flags: {
    data: DATA_FLAG,
    listen: {
      type: "string",
      value: "HOST:PORT",
      doc: "Address to listen on (default 127.0.0.1:7070); port 0 picks a free one",
    },
    config: CONFIG_FLAG,
  },
  examples: [
    "verk serve",
    "verk serve --data ./data --listen 127.0.0.1:7080",
    "verk serve --config /etc/verk/config.toml",
  ],
  exits: {
    0: "stopped cleanly",
    1: "failed, or could not stop cleanly",
    3: "another server holds the data directory",
  },
  async run(flags) {
    const file = configFile(flags.config);
    const config = settingsOf(flags);
    becomeOwnerOf(config.data_dir);
    const say = isJsonLog(config.log.format) ? sayAsJson : note;
    const exposed = exposedSecrets(file);
    if (exposed) {
      const { detail, fix } = sayExposed(exposed);
      say(`Warning: ${detail}: ${fix}`);
    }
    const plain = plainExposure(config.http);
    if (plain) say(`Warning: ${plain.detail}: ${plain.fix}`);
    const descriptors = descriptorsOf();
    const few = descriptors && fewDescriptors(descriptors);
    if (few) say(`Warning: open files: ${few.detail}: ${few.fix}`);
    raisePriority();
    const { startServer } = await import("../../app.ts");
    const server = await openDataDir(config.data_dir, () => startServer(config));
    if (process.getuid?.() === 0) say(`Warning: ${AS_ROOT}`);
    if (!isJsonLog(config.log.format)) sayStops(server, say);
    say(`verk ${VERSION} listening on ${server.url} (data ${config.data_dir}, pid ${process.pid})`);
    if (server.detectUrl) say(`Detection API listening on ${server.detectUrl}`);
    if (server.setup) say(`Dashboard: ${server.setup.url} (signs you in; works once, for 24 hours)`);
    sayUnusedGpu(say).catch(() => {}); // `verk doctor` reports what fails there
    return server.stopped;
  },
});

/** The JSON log has lines for the same moments. */
function sayStops({ ctx, stopped }: RunningServer, say: (text: string) => void) {
  ctx.closing.addEventListener("abort", () => say("Stopping. Ctrl-C again stops at once."), { once: true });
  void stopped.then((code) => say(code === 0 ? "Stopped." : "Stopped, but not cleanly."));
}

const AS_ROOT =
  "the server runs as root. Commands of users run as nobody and workers without capabilities, but a mistake in the server itself has all rights: run it with its own account, as install.sh does";

/** Not by the log, which would hide the token of the setup link: it is meant to be read there. */
const sayAsJson = (text: string) => note(JSON.stringify({ time: new Date().toISOString(), level: "info", msg: text }));

/** Runs in the background, because a hanging driver answers only after seconds. */
async function sayUnusedGpu(say: (text: string) => void) {
  const presence = await findGpus();
  const advice = unusedGpu({ ...presence, hasLibrary: groups["llama-cuda"] !== undefined });
  if (advice) say(sentence(advice));
}
