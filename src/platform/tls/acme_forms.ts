/** The answers of an ACME authority (RFC 8555, section 7.1). Other members are dropped. */
import { z } from "zod";
import { outside } from "../../lib/json/outside.ts";
import { MIB } from "../../lib/units.ts";

const Address = z.string().max(2_000);
const Problem = z.object({ type: z.string().max(300).optional(), detail: z.string().max(10_000).optional() });
export type Problem = z.infer<typeof Problem>;

/** The names of a certificate. Authorities allow 100. */
const MOST_NAMES = 100;
/** A chain of certificates in PEM. */
export const CERTIFICATE_BYTES = MIB;

export const DIRECTORY = outside(
  "the authority's directory",
  z.object({ newNonce: Address, newAccount: Address, newOrder: Address }),
);
export const ORDER = outside(
  "the authority's order",
  z.object({
    status: z.string().max(50).optional(),
    authorizations: z.array(Address).max(MOST_NAMES),
    finalize: Address,
    certificate: Address.optional(),
    error: Problem.optional(),
  }),
);
export const AUTHORIZATION = outside(
  "the authority's authorization",
  z.object({
    status: z.string().max(50).optional(),
    identifier: z.object({ value: z.string().max(300) }),
    challenges: z
      .array(
        z.object({
          type: z.string().max(100),
          url: Address,
          token: z
            .string()
            .regex(/^[\w-]{16,200}$/, "is not base64url")
            .optional(),
          error: Problem.optional(),
        }),
      )
      .max(50),
  }),
);
export const PROBLEM = outside("the authority's error", Problem);
