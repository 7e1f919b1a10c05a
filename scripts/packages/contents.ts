/** The files that a package of a distribution installs, the same for .deb and .rpm except for a few paths. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { loadCommands } from "../../src/cli/command_table.ts";
import { bashScript, fishScript, zshScript } from "../../src/cli/text/completion.ts";
import { manPage } from "../../src/cli/text/man.ts";
import type { Platform } from "../../src/native/platform/index.ts";
import { copyright, debianChangelog, lintianOverrides } from "./debian_texts.ts";

export type Release = {
  root: string;
  /** The executable that is packed. */
  executable: string;
  platform: Platform;
  version: string;
  /** Time of the commit. Every file in a package has this time, so that two builds are equal. */
  seconds: number;
  /** `Name <address>` of the person who answers for the package. */
  maintainer: string;
};

/** `path` is absolute. */
export type PackedFile = {
  path: string;
  mode: number;
  content: Uint8Array;
  kind: "program" | "config" | "doc" | "license";
};
export type Flavour = "deb" | "rpm";

/** Group that may read the settings; the scripts of the package create the group. */
export const SERVICE_USER = "verk";
export const CONFIG_PATH = "/etc/verk/config.toml";
export const SUMMARY = "post-training and inference platform in one executable";
export const DESCRIPTION = [
  "Verk trains language models, serves them and evaluates the results, on one",
  "machine and without a network. It is one executable with a command line, an",
  "HTTP API and a dashboard.",
];

const CONFIG = `# Settings of Verk. To see all settings with defaults and meaning: verk config default
# To check this file after a change: verk config check --config ${CONFIG_PATH}
data_dir = "/var/lib/verk"
`;

const ZSH = { deb: "/usr/share/zsh/vendor-completions", rpm: "/usr/share/zsh/site-functions" } as const;

/** Sorted by path, as both formats expect it. */
export async function packageFiles(release: Release, flavour: Flavour): Promise<PackedFile[]> {
  const { root, version, seconds } = release;
  const bytes = (text: string) => new TextEncoder().encode(text);
  const read = (path: string) => new Uint8Array(readFileSync(join(root, path)));
  const file = (path: string, content: Uint8Array, kind: PackedFile["kind"] = "program", mode = 0o644): PackedFile => ({
    path,
    mode,
    content,
    kind,
  });
  const commands = await loadCommands();
  const date = new Date(seconds * 1000).toISOString().slice(0, 10);
  const unit = readFileSync(join(root, "config/verk.service"), "utf8").replaceAll("/usr/local/bin/", "/usr/bin/");
  const doc = "/usr/share/doc/verk";
  const common = [
    file("/usr/bin/verk", new Uint8Array(readFileSync(release.executable)), "program", 0o755),
    file(CONFIG_PATH, bytes(CONFIG), "config", 0o640),
    file("/usr/share/bash-completion/completions/verk", bytes(bashScript(commands))),
    file("/usr/share/fish/vendor_completions.d/verk.fish", bytes(fishScript(commands))),
    file(`${ZSH[flavour]}/_verk`, bytes(zshScript(commands))),
    file("/usr/share/man/man1/verk.1.gz", packed(bytes(manPage({ commands, version, date }))), "doc"),
    file(`${doc}/NOTICE`, read("NOTICE"), "doc"),
    file(`${doc}/examples/config.toml`, read("config/default.toml"), "doc"),
    file("/usr/lib/systemd/system/verk.service", bytes(unit)),
  ];
  const own = {
    deb: () => [
      file(`${doc}/changelog.gz`, packed(bytes(debianChangelog(release))), "doc"),
      file(`${doc}/copyright`, bytes(copyright(release)), "doc"),
      file("/usr/share/lintian/overrides/verk", bytes(lintianOverrides)),
    ],
    rpm: () => [
      file(`${doc}/CHANGELOG.md`, read("CHANGELOG.md"), "doc"),
      file("/usr/share/licenses/verk/LICENSE", read("LICENSE"), "license"),
    ],
  };
  return [...common, ...own[flavour]()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Most of the executable is compressed already: a higher level takes longer and saves nothing. */
export const PAYLOAD_LEVEL = 6;

/** gzip writes no time and no name here, so the same text gives the same bytes. Debian's policy asks for level 9. */
export const packed = (content: Uint8Array, level = 9) => new Uint8Array(gzipSync(content, { level }));

/** Every folder above a file, parents first. */
export function foldersOf(files: readonly Pick<PackedFile, "path">[]): string[] {
  const found = new Set<string>();
  for (const { path } of files) for (let at = dirname(path); at !== "/"; at = dirname(at)) found.add(at);
  return [...found].sort();
}
