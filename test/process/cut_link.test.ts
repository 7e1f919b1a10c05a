/** A link that is cut for a minute by taking the cable out of a network namespace. Only in full runs, as root. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { HOST_ALIAS, sshLink } from "../../src/platform/providers/link.ts";
import { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import { Unreachable } from "../../src/platform/providers/types.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { layCable } from "../servers/netns.ts";
import { startSshd } from "../servers/sshd.ts";
import { IS_FULL } from "../sweep.ts";
import { dir, ended, LONG_MS, recordsOf, stepsDone, stepsOf, submission } from "./provider_kit.ts";

const [EXECUTABLE = ""] = program();
const CUT_MS = 60_000;
const STEPS = 40;

test.if(IS_FULL && process.getuid?.() === 0)(
  "a run goes on while its cable is out for 60 s, and nothing of it is lost",
  async () => {
    using cable = layCable();
    const server = await startSshd(cable);
    await placeExecutable(EXECUTABLE, join(server.home, "verk"));
    const link = sshLink({
      address: async () => cable.address,
      port: server.port,
      user: server.user,
      dir,
      privateKey: () => server.privateKey,
      knownHosts: `${HOST_ALIAS} ${server.hostKey}\n`,
    });
    const provider = new NodeProvider({
      region: "reg_test",
      kind: "ssh",
      link,
      root: "verk",
      executable: EXECUTABLE,
      rateMicros: null,
    });
    const handle = await provider.submit(await submission(STEPS));
    await stepsDone(provider, handle, 1);
    cable.cut();
    const since = performance.now();
    const isUnreachable = () =>
      provider.observe([handle]).then(
        () => false,
        (error) => error instanceof Unreachable,
      );
    await until(
      "a minute",
      async () => ((await isUnreachable()) && performance.now() - since > CUT_MS) || undefined,
      LONG_MS,
    );
    cable.join();
    await ended(provider, handle);
    const steps = stepsOf(await recordsOf(provider, handle)).map(({ step }) => step);
    expect(steps).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
    await provider.remove(handle.job);
  },
  4 * LONG_MS,
);
