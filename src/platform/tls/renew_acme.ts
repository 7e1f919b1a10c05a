/** The server renews a certificate of an ACME authority with the command that made it. */
import type { Config } from "../config/config.ts";
import type { Log } from "../log.ts";
import { self } from "../workers/self.ts";

/** One tick. The command does nothing if the certificate is not due. The listener finds changed files by itself. */
export async function renewAcme({ config, log }: { config: Config; log: Log }, signal: AbortSignal) {
  if (config.acme.directory === "" || config.http.redirect_listen === "") return;
  const child = Bun.spawn(self("tls", "acme", "--json", "--data", config.data_dir), {
    env: envOf(config),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    signal,
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (signal.aborted) return;
  if (code !== 0) throw new Error(err.trim().slice(-1000) || `verk tls acme ended with ${code}`);
  if (out !== "") log.info("the authority gave a new certificate", JSON.parse(out));
}

/** The settings that the command needs, because flags and the environment of the server may have set them. */
const envOf = ({ acme, network, http, data_dir: home }: Config): Record<string, string> => ({
  PATH: "/usr/bin:/bin",
  HOME: home,
  VERK_ACME__DIRECTORY: acme.directory,
  VERK_ACME__NAMES: acme.names.join(","),
  VERK_ACME__EMAIL: acme.email,
  VERK_NETWORK__ALLOW: network.allow.join(","),
  VERK_NETWORK__ALLOW_PRIVATE: String(network.allow_private),
  VERK_NETWORK__CA_FILE: network.ca_file,
  VERK_HTTP__REDIRECT_LISTEN: http.redirect_listen,
  VERK_HTTP__TLS_CERT: http.tls_cert,
  VERK_HTTP__TLS_KEY: http.tls_key,
});
