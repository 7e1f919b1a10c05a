// tier: all (whole paths on the executable)
/** Providers over real processes: the conformance suite on this machine and over ssh. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { directLink, HOST_ALIAS, type Link, sshLink } from "../../src/platform/providers/link.ts";
import { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import { Unreachable } from "../../src/platform/providers/types.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import {
  conforms,
  dir,
  ended,
  LONG_MS,
  numbersOf,
  pidIn,
  recordsOf,
  reference,
  stateOf,
  stepsOf,
  submission,
} from "./provider_kit.ts";

const [EXECUTABLE = ""] = program();
const providerOver = (link: Link, root: string) =>
  new NodeProvider({ region: "reg_test", kind: "ssh", link, root, executable: EXECUTABLE, rateMicros: null });

describe("this machine", () => {
  const root = join(dir, "direct");
  beforeAll(() => placeExecutable(EXECUTABLE, root));
  const provider = providerOver(directLink(dir), root);
  conforms({ provider: () => provider, root, pidOf: pidIn(root) });
});

describeWith("ssh", sshd, (server) => {
  const keys = join(dir, "keys");
  mkdirSync(keys, { recursive: true });
  const target = (more: Partial<Parameters<typeof sshLink>[0]> = {}) => ({
    address: async () => "127.0.0.1",
    port: server.port,
    user: server.user,
    dir: keys,
    privateKey: () => server.privateKey,
    knownHosts: `${HOST_ALIAS} ${server.hostKey}\n`,
    ...more,
  });
  const root = join(server.home, "verk work's"); // a shell must not read this name
  const provider = providerOver(sshLink(target()), "verk work's");
  conforms({ provider: () => provider, root, pidOf: pidIn(root) });

  test(
    "another host key is refused, and no key file stays behind",
    async () => {
      const other = `${HOST_ALIAS} ${server.publicKey}\n`;
      const refused = providerOver(sshLink(target({ knownHosts: other })), "w").info();
      await expect(refused).rejects.toThrow(Unreachable);
      await expect(refused).rejects.toThrow(/[Hh]ost key verification failed/);
      expect(readdirSync(keys)).toEqual([]);
    },
    LONG_MS,
  );

  test(
    "a cut link changes nothing for the run",
    async () => {
      using proxy = cuttingProxy(server.port);
      const far = providerOver(sshLink(target({ port: proxy.port })), "verk work's");
      const handle = await far.submit(await submission(3));
      proxy.cutAfter(0);
      await expect(far.observe([handle])).rejects.toThrow(Unreachable);
      await ended(provider, handle);
      proxy.cutAfter(Number.POSITIVE_INFINITY);
      await until("the link", async () => ((await stateOf(far, handle)) === "ended" ? true : undefined), LONG_MS);
      expect(stepsOf(await recordsOf(far, handle)).map(numbersOf)).toEqual(reference.numbers as never);
      await far.remove(handle.job);
    },
    LONG_MS,
  );
});
