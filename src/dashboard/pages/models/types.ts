import type {
  ModelCapabilities,
  ModelDependents,
  ModelFile,
} from "../../../resources/serving/models/registry/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { ModelDownload } from "../../../resources/training/training_jobs/artifacts/download.ts";

export type { Model, ModelCapabilities, ModelDependents, ModelDownload, ModelFile };

export const modelPath = (name: string, rest = "") => `/v1/models/${encodeURIComponent(name)}${rest}`;

/** A model that the server is still fetching, checking or making. */
export const isOpen = ({ status }: Pick<Model, "status">) => status === "pending" || status === "downloading";

/** Only models of the workspace can be renamed and deleted. */
export const isOwn = ({ owned_by: owner }: Pick<Model, "owned_by">) => owner !== "verk" && owner !== "local";
