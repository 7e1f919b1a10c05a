import { type Config, configFile, loadConfig } from "../platform/config/config.ts";
import { becomeOwnerOf } from "../platform/workers/owner.ts";

type Given = { config?: string | undefined; data?: string | undefined; listen?: string | undefined };

/** The configuration in force for a command, its flags included; from here on root acts as the directory's owner. */
export function settingsOf({ config, data, listen }: Given): Config {
  const settings = loadConfig({ file: configFile(config), flags: { data_dir: data, "http.listen": listen } });
  becomeOwnerOf(settings.data_dir);
  return settings;
}
