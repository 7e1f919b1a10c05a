/**
 * Server ⇄ detector, over the worker's own socket: `POST /score?models=a,b&robustness=1` with the bytes of one image or
 * clip as the body, and a `Scored` or a `Refused` back. The worker decodes, so a file that breaks a decoder ends the
 * worker and not the server. Requests that come together are scored together.
 */
import { z } from "zod";
import { later } from "../lib/schema.ts";
import { Done, Failed, Heartbeat, Ready } from "./protocol.ts";

export const IMAGE_MODELS = ["detector_v0", "detector_v1"] as const;
export const AUDIO_MODELS = ["detector_audio_v0"] as const;
export const MODELS = [...IMAGE_MODELS, ...AUDIO_MODELS] as const;
export const ModelName = z.enum(MODELS);
export type ModelName = z.infer<typeof ModelName>;

export const ModelResult = later(() =>
  z.strictObject({
    /** Calibrated, 0 to 1; higher: more likely generated. Null: it failed. */
    score: z.number().min(0).max(1).nullable(),
    status: z.enum(["success", "error"]),
    latency_ms: z.number().min(0),
    error: z.string().nullable(),
  }),
);
export type ModelResult = z.infer<typeof ModelResult>;

export const Media = later(() =>
  z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("image"),
      format: z.enum(["jpeg", "png", "webp", "gif"]),
      width: z.int().positive(),
      height: z.int().positive(),
      frames: z.int().positive(),
    }),
    z.strictObject({
      kind: z.literal("audio"),
      format: z.enum(["wav", "flac", "mp3"]),
      seconds: z.number().positive(),
      sample_rate: z.int().positive(),
      channels: z.int().positive(),
    }),
  ]),
);
export type Media = z.infer<typeof Media>;

/** What informs the reader and never moves a score. */
export const Signals = later(() =>
  z.strictObject({
    c2pa: z
      .strictObject({
        present: z.boolean(),
        /** The content's hash is the one in the manifest. Null: nothing to compare. The signer is not judged. */
        hash_valid: z.boolean().nullable(),
        claim_generator: z.string().nullable(),
        digital_source_type: z.string().nullable(),
      })
      .nullable(),
    metadata: z.strictObject({
      software: z.string().nullable(),
      camera: z.string().nullable(),
      /** What common generators leave: the name of the tool, not its words. */
      generator: z.string().nullable(),
    }),
    robustness: z
      .strictObject({
        /** The ensemble over re-encodes and rescales of the image. */
        lowest: z.number(),
        highest: z.number(),
        views: z.array(z.strictObject({ view: z.string(), score: z.number() })),
        /** Some view is on the other side of 0.5. */
        flips: z.boolean(),
      })
      .nullable(),
  }),
);
export type Signals = z.infer<typeof Signals>;

export const Scored = later(() =>
  z.strictObject({
    media: Media,
    models: z.partialRecord(ModelName, ModelResult),
    versions: z.partialRecord(ModelName, z.string()),
    signals: Signals,
  }),
);
export type Scored = z.infer<typeof Scored>;

/** With status 422: the file is at fault. */
export const Refused = later(() =>
  z.strictObject({
    code: z.enum(["INVALID_IMAGE", "UNSUPPORTED_FORMAT", "IMAGE_TOO_LARGE", "UNKNOWN_MODEL"]),
    error: z.string(),
  }),
);
export type Refused = z.infer<typeof Refused>;

/** Over ipc, once: HTTP is to be opened on the socket when the models are loaded. */
export const ToDetector = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("open"),
      data_dir: z.string(),
      threads: z.int().positive(),
      /** Of one image; a larger one is refused before it is decoded. */
      max_pixels: z.int().positive(),
      /** Where other models lie than those inside the executable. */
      models_dir: z.string().optional(),
    }),
  ]),
);
export type ToDetector = z.infer<typeof ToDetector>;

export const FromDetector = later(() =>
  z.discriminatedUnion("type", [
    Ready,
    Heartbeat,
    Failed,
    Done,
    /** HTTP is open on the socket. `versions`: of the models that could be loaded. */
    z.strictObject({ type: z.literal("opened"), versions: z.partialRecord(ModelName, z.string()) }),
  ]),
);
export type FromDetector = z.infer<typeof FromDetector>;
