import { formatListen, isLoopback, parseListen } from "../../lib/net/listen.ts";
import type { Config } from "../config/config.ts";

/** The fault of the listener and its fix. Undefined: the listener has TLS, or only this machine reaches it. */
export function plainExposure({ listen, tls_cert: cert }: Config["http"]): { detail: string; fix: string } | undefined {
  const at = parseListen(listen);
  if (cert !== "" || at === undefined || isLoopback(at.hostname)) return undefined;
  return {
    detail: `${formatListen(at)} is reachable from other machines without TLS, so everyone on the way can read API keys`,
    fix: "run `verk tls init` and set http.tls_cert and http.tls_key, or listen on 127.0.0.1 behind a proxy with TLS",
  };
}
