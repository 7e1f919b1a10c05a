import { type BundleFile, type BundleManifest, compareVersions } from "./manifest.ts";

export type Installed = {
  version: string;
  /** ISO 8601, or null for a program that runs from source. */
  built_at: string | null;
  /** The schema that the program writes. */
  database_version: number;
};

/** The reason why `installed` must not be replaced by this release, or undefined. */
export function refusalOf(installed: Installed, manifest: BundleManifest): string | undefined {
  const { version, database_version: database, built_at: builtAt } = manifest;
  const order = compareVersions(version, installed.version);
  const back = "Go back with `verk rollback`, or restore a backup of that version into a new directory.";
  if (order < 0)
    return `The bundle has version ${version}, which is older than the installed ${installed.version}. ${back}`;
  if (database < installed.database_version)
    return `Version ${version} knows the database up to schema ${database}, and the installed program writes schema ${installed.database_version}. ${back}`;
  if (order === 0 && installed.built_at !== null && builtAt < installed.built_at)
    return `The bundle has the same version ${version}, but its build of ${builtAt} is older than the installed one of ${installed.built_at}. ${back}`;
  return undefined;
}

export const isSameBuild = (installed: Installed & { commit: string }, manifest: BundleManifest) =>
  installed.version === manifest.version &&
  installed.commit === manifest.commit &&
  installed.built_at === manifest.built_at;

export const executableFor = (manifest: BundleManifest, target: string): BundleFile | undefined =>
  manifest.files.find((file) => file.kind === "executable" && file.target === target);
