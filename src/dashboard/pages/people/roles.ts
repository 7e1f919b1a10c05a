import type { Role } from "../../../resources/access/people/policy.ts";

export const ROLE_WORDS: Readonly<Record<Role, string>> = {
  owner: "everything, and manages every user",
  admin: "everything, and manages every user but owners",
  member: "trains, deploys, calls models",
  viewer: "reads",
  annotator: "works on annotation queues",
};
