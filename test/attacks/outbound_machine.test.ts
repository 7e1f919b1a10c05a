import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { formatIp, parseIp } from "../../src/lib/net/ip.ts";
import {
  judgeAddress,
  judgeUrl,
  networkPolicy,
  type Policy,
  resolveChecked,
} from "../../src/platform/network/address.ts";
import { targetOf } from "../../src/platform/network/dial_target.ts";
import { type Listener, listen, NO_CONTENT, TLS } from "../fault/ssrf_listener.ts";

/** Public addresses, so that nothing but the interfaces can refuse them. */
const OWN4 = "8.8.4.4";
const OWN6 = "2606:4700::64";
const withOwn = (...own: string[]): Policy => ({
  ...networkPolicy({ allow_private: false, allow: [] }),
  own: () => new Set(own),
});

describe("a public address of this machine's own interfaces", () => {
  const policy = withOwn(OWN4, OWN6);
  const allowed = (url: string, by = policy) => judgeUrl(url, by, { allowHttp: true }).allowed;

  test("is refused, in every spelling, also inside IPv6 and behind a name", async () => {
    const spelled = [OWN4, "134743044", "0x8080404", "010.010.4.4", `[::ffff:${OWN4}]`, `[64:ff9b::${OWN4}]`];
    for (const host of [...spelled, "[2002:808:404::1]", `[${OWN6}]`, `[2606:4700:0:0::0064]`])
      expect([host, allowed(`https://${host}/`)]).toEqual([host, false]);
    const leads = resolveChecked("a.example", policy, async () => [{ address: "8.8.8.8" }, { address: OWN4 }]);
    expect(leads).rejects.toMatchObject({ code: "address_refused" });
  });

  test("is accepted once no interface has it, and other public addresses are always accepted", () => {
    expect(allowed(`https://${OWN4}/`, withOwn())).toBe(true);
    expect(allowed(`https://[${OWN6}]/`, withOwn())).toBe(true);
    expect(allowed("https://8.8.8.8/")).toBe(true);
  });

  test("can be allowed by the operator, only by that address", () => {
    const listed = { ...policy, cidrs: networkPolicy({ allow_private: false, allow: [`${OWN4}/32`] }).cidrs };
    expect([allowed(`https://${OWN4}/`, listed), allowed(`https://[${OWN6}]/`, listed)]).toEqual([true, false]);
  });

  test("is checked at each connection: a new interface also closes a remembered target", () => {
    const own = new Set<string>();
    const later: Policy = { ...policy, own: () => own };
    const targets = new Map();
    const target = () => targetOf(`https://${OWN4}/hook`, { policy: later, keepAlive: true, targets });
    expect(target()).toBe(target()); // remembered
    own.add(OWN4);
    expect(target).toThrow("an address of this machine");
  });

  test("the server's policy has the addresses that the kernel reports", () => {
    const own = networkPolicy({ allow_private: false, allow: [] }).own?.() ?? new Set();
    const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    expect(all.length).toBeGreaterThan(0);
    for (const { address } of all) expect([...own]).toContain(formatIp(parseIp(address.replace(/%.*$/, ""))!));
    for (const address of own) expect(judgeAddress(parseIp(address)!, networkPolicy(CLOSED)).allowed).toBe(false);
  });
  const CLOSED = { allow_private: false, allow: [] };
});

describe("a proxy of the environment", () => {
  let proxy: Listener;
  let target: Listener;
  let plain: Listener;
  beforeAll(async () => {
    proxy = await listen((socket) => socket.end("HTTP/1.1 502 Proxied\r\n\r\n"), { plain: true });
    target = await listen((socket) => socket.end(NO_CONTENT));
    plain = await listen((socket) => socket.end(NO_CONTENT), { plain: true });
  });
  afterAll(() => {
    for (const each of [proxy, target, plain]) each.stop();
  });

  /** A process of its own: the environment of this one belongs to all tests. */
  const ask = async (program: string) => {
    const at = `http://127.0.0.1:${proxy.port}`;
    const names = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"];
    const env = Object.fromEntries(names.map((name) => [name, at]));
    const child = Bun.spawn([process.execPath, "-e", program], {
      cwd: join(import.meta.dir, "../.."),
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdout: "pipe",
      stderr: "pipe",
    });
    return (await new Response(child.stdout).text()).trim() || (await new Response(child.stderr).text());
  };
  const guarded = (url: string) => `
    import { guardedDial } from "./src/platform/network/http_client.ts";
    const dial = guardedDial({ allow_private: false, allow: ["127.0.0.1"], ca_file: ${JSON.stringify(join(TLS, "ca.pem"))} });
    const { status } = await dial(${JSON.stringify(url)}, { timeoutMs: 60000, allowHttp: true, lookup: async () => [{ address: "127.0.0.1" }] });
    console.log(status);`;

  test("is not used for a guarded call, over http or https", async () => {
    expect(await ask(guarded(`http://hooks.example:${plain.port}/`))).toBe("204");
    expect(await ask(guarded(`https://hooks.example:${target.port}/`))).toBe("204");
    expect(proxy.connections).toBe(0);
    expect([plain.connections, target.connections]).toEqual([1, 1]);
  });

  test("would be used by a plain fetch, so the test can fail", async () => {
    const url = JSON.stringify(`http://127.0.0.1:${plain.port}/`);
    expect(await ask(`console.log((await fetch(${url})).status)`)).toBe("502");
    expect(proxy.connections).toBe(1);
  });
});
