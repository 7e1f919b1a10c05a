import type { Routes } from "../http/route_groups.ts";
import { routes as batches } from "../resources/other_apis/batches/routes.ts";
import { routes as containers } from "../resources/other_apis/containers/routes.ts";
import { routes as conversations } from "../resources/other_apis/conversations/routes.ts";
import { routes as evals } from "../resources/other_apis/evals/routes.ts";
import { routes as uploads } from "../resources/other_apis/files/part_routes.ts";
import { routes as files } from "../resources/other_apis/files/routes.ts";
import { routes as graders } from "../resources/other_apis/fine_tuning/grader_routes.ts";
import { routes as fineTuning } from "../resources/other_apis/fine_tuning/routes.ts";
import { routes as google } from "../resources/other_apis/google/routes.ts";
import { routes as huggingFace } from "../resources/other_apis/hugging_face.ts";
import { routes as messages } from "../resources/other_apis/messages/routes.ts";
import { routes as moderations } from "../resources/other_apis/moderations/routes.ts";
import { routes as rerank } from "../resources/other_apis/rerank.ts";
import { routes as responses } from "../resources/other_apis/responses/routes.ts";
import { routes as vectorFiles } from "../resources/other_apis/vector_stores/file_routes.ts";
import { routes as vectorStores } from "../resources/other_apis/vector_stores/routes.ts";

export const group: readonly Routes[] = [
  messages,
  google,
  huggingFace,
  responses,
  conversations,
  files,
  uploads,
  batches,
  fineTuning,
  graders,
  evals,
  containers,
  moderations,
  vectorStores,
  vectorFiles,
  rerank,
];
