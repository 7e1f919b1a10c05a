import { type Config, configFile, loadConfig } from "../platform/config.ts";

type Given = { config?: string | undefined; data?: string | undefined; listen?: string | undefined };

/** The configuration in force for a command, its flags included. */
export const settingsOf = ({ config, data, listen }: Given): Config =>
  loadConfig({ file: configFile(config), flags: { data_dir: data, "http.listen": listen } });
