import { UsageError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json/object.ts";
import {
  ConfigError,
  configFile,
  defaultToml,
  exposedSecrets,
  printConfig,
  sayExposed,
} from "../../platform/config/config.ts";
import { defaultPricing, loadPricing } from "../../platform/pricing.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../args.ts";
import { note, print, printJson } from "../output.ts";
import { settingsOf } from "../settings.ts";

const print_ = command({
  summary: "Print the effective configuration with secrets hidden",
  flags: { config: CONFIG_FLAG, data: DATA_FLAG, json: JSON_FLAG },
  examples: ["verk config print", "verk config print --config ./verk.toml --json"],
  run({ json, ...where }) {
    const shown = printConfig(settingsOf(where));
    if (json) printJson(shown);
    else for (const line of lines(shown)) print(line);
    return EXIT.ok;
  },
});

const check = command({
  summary: "Check the configuration file and the environment as `verk serve` does",
  flags: {
    config: CONFIG_FLAG,
    data: DATA_FLAG,
    json: { type: "boolean", doc: 'Print {"ok","file","errors","warnings"}' },
  },
  examples: ["verk config check --config ./verk.toml"],
  exits: { 5: "the configuration is wrong; each message names the setting and its line" },
  run({ json, ...where }) {
    const file = configFile(where.config) ?? null;
    const errors = mistakes(() => {
      const { data_dir, billing } = settingsOf(where);
      becomeOwnerOf(data_dir); // the server must be able to read the file
      return loadPricing(billing.pricing_file);
    });
    const ok = errors.length === 0;
    const exposed = ok ? exposedSecrets(file ?? undefined) : undefined;
    const { detail, fix } = exposed ? sayExposed(exposed) : { detail: undefined, fix: undefined };
    const warnings = detail === undefined ? [] : [`${detail}: ${fix}`];
    if (json) printJson({ ok, file, error: ok ? null : errors.join("\n"), errors, warnings });
    else if (ok) note(`The configuration is valid (${file ?? "no file: defaults and environment"}).`);
    else for (const error of errors) note(`verk: ${error}`);
    if (!json) for (const warning of warnings) note(`Warning: ${warning}`);
    return ok ? EXIT.ok : EXIT.check;
  },
});

const default_ = command({
  summary: "Print the default configuration file: every setting with its default and meaning",
  flags: {},
  examples: ["verk config default > verk.toml"],
  run() {
    print(defaultToml().trimEnd());
    return EXIT.ok;
  },
});

const pricing = command({
  summary: "Print the default prices, as a start for your own file (billing.pricing_file)",
  flags: {},
  examples: ["verk config pricing > pricing.toml"],
  run() {
    print(defaultPricing().trimEnd());
    return EXIT.ok;
  },
});

export const config: Group = {
  summary: "Print and check the configuration; print the defaults",
  subcommands: { print: print_, check, default: default_, pricing },
};

function mistakes(body: () => unknown): readonly string[] {
  try {
    body();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes;
    if (error instanceof UsageError) return [error.message];
    throw error;
  }
}

/** Formats one setting per line, so that grep works: `http.listen = "127.0.0.1:7070"`. */
function lines(tree: Record<string, unknown>, prefix = ""): string[] {
  return Object.entries(tree).flatMap(([key, value]) =>
    isObject(value)
      ? lines(value as Record<string, unknown>, `${prefix}${key}.`)
      : [`${prefix}${key} = ${JSON.stringify(value)}`],
  );
}
