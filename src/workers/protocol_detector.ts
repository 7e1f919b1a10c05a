/**
 * Server ⇄ detector, over the worker's own socket. `POST /score?models=a,b&robustness=1&heatmap=1&features=1` carries the
 * bytes of one image or clip; the answer is a `Scored` or a `Refused`. The worker decodes, so a file that breaks a decoder ends the
 * worker, not the server. Concurrent requests are scored together. `POST /pixels?side=2048` carries one
 * image; the answer is its pixels (RGB), with `x-width` and `x-height`, or a `Refused`.
 */
import { z } from "zod";
import { later } from "../lib/schema.ts";
import { fromWorker } from "./protocol.ts";

export const IMAGE_MODELS = ["detector_v0", "detector_v1"] as const;
export const AUDIO_MODELS = ["detector_audio_v0"] as const;
export const MODELS = [...IMAGE_MODELS, ...AUDIO_MODELS] as const;
export const ModelName = z.enum(MODELS);
export type ModelName = z.infer<typeof ModelName>;

export const ModelResult = later(() =>
  z.strictObject({
    /** Calibrated, 0 to 1; a higher score means more likely generated. Null if the model failed. */
    score: z.number().min(0).max(1).nullable(),
    status: z.enum(["success", "error"]),
    latency_ms: z.number().min(0),
    error: z.string().nullable(),
    /** True if the file is unlike everything in the model's training. Absent: the model cannot tell. */
    unlike: z.boolean().optional(),
    /** The score from which on the model's tier `ai` is proven; null: never. Absent: by the common tiers. */
    ai_from: z.number().min(0).max(1).nullable().optional(),
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

/** Claims of a file about itself, and its watermark. `src/lib/detection/evidence.ts` says what they are worth. */
export const Signals = later(() =>
  z.strictObject({
    c2pa: z
      .strictObject({
        present: z.boolean(),
        /** True if the content's hash equals the one in the manifest. Null: there is no hash to compare. */
        hash_valid: z.boolean().nullable(),
        claim_generator: z.string().nullable(),
        digital_source_type: z.string().nullable(),
        /** The program that made the file, by the manifest that names the source type. */
        generator: z.string().nullable().optional(),
        /** True if the newest manifest and the one that names the source type have valid signatures. */
        source_signed: z.boolean().optional(),
        manifests: z.int().min(0).optional(),
        /** Null if the manifest is not signed. Results of earlier versions do not have it. */
        signature: z
          .strictObject({
            /** True if the signer signed these claims. Null if the signature cannot be checked. */
            valid: z.boolean().nullable(),
            /** True if the signer's certificate leads to `detect.trust_list`. Null if there is no list, or not valid. */
            trusted: z.boolean().nullable(),
            signer: z.string().nullable(),
            problem: z.string().nullable(),
          })
          .nullable()
          .optional(),
      })
      .nullable(),
    metadata: z.strictObject({
      software: z.string().nullable(),
      camera: z.string().nullable(),
      /** The name of the generator whose traces the metadata holds, not the text of the trace. */
      generator: z.string().nullable(),
      /** From XMP. */
      digital_source_type: z.string().nullable().optional(),
      /** The model and the prompt that the generator wrote into the file. */
      model: z.string().nullable().optional(),
      prompt: z.string().nullable().optional(),
    }),
    /** The invisible watermark of an open generator. `agreement`: the share of its bits that were read. */
    watermark: z
      .strictObject({ generator: z.string(), agreement: z.number().min(0).max(1) })
      .nullable()
      .optional(),
    robustness: z
      .strictObject({
        /** Lowest ensemble score over re-encoded and rescaled views of the image. */
        lowest: z.number(),
        highest: z.number(),
        views: z.array(z.strictObject({ view: z.string(), score: z.number() })),
        /** True if a view is on the other side of 0.5. */
        flips: z.boolean(),
      })
      .nullable(),
  }),
);
export type Signals = z.infer<typeof Signals>;

/** Side of a crop in pixels. */
export const CROP_SIZE = 256;

/** The score of one square of the image alone, in pixels of the image. */
export const CropScore = later(() =>
  z.strictObject({ x: z.int().min(0), y: z.int().min(0), score: z.number().min(0).max(1) }),
);
export type CropScore = z.infer<typeof CropScore>;

/**
 * `blank`: of one colour or a smooth slope. `framed`: the picture inside borders was scored. `screenshot`: without one. Of a
 * recording: `not_speech` is music, noise or silence.
 */
export const Layout = z.enum(["plain", "framed", "screenshot", "blank", "not_speech"]);
export type Layout = z.infer<typeof Layout>;

/** Scores of a grid of squares over the image, row by row. Of an animation: of its first frame. */
export const Heatmap = later(() =>
  z.strictObject({
    columns: z.int().positive(),
    rows: z.int().positive(),
    scores: z.array(z.number().min(0).max(1).nullable()),
    /** A transparent PNG in the proportions of the image, in base64. Red: generated. Blue: real. */
    png: z.string(),
  }),
);
export type Heatmap = z.infer<typeof Heatmap>;

/** A file as one model sees it before its last layer, to adapt that layer. */
export const ModelEvidence = later(() =>
  z.strictObject({
    logit: z.number(),
    score: z.number().min(0).max(1),
    /** The mean over crops. Empty: the last layer of this model cannot be adapted. */
    features: z.array(z.number()),
  }),
);
export type ModelEvidence = z.infer<typeof ModelEvidence>;

export const Evidence = later(() =>
  z.strictObject({
    /** SHA-256 of the weights of each model. */
    bases: z.partialRecord(ModelName, z.string()),
    /** The file itself (`original`), and an image after re-encoding. Of an animation: its first frame. */
    views: z.array(z.strictObject({ view: z.string(), models: z.partialRecord(ModelName, ModelEvidence) })),
  }),
);
export type Evidence = z.infer<typeof Evidence>;

export const Scored = later(() =>
  z.strictObject({
    media: Media,
    models: z.partialRecord(ModelName, ModelResult),
    versions: z.partialRecord(ModelName, z.string()),
    signals: Signals,
    /** The squares of an image that its score comes from. Results of earlier versions do not have them. */
    crops: z.array(CropScore).optional(),
    /** Results of earlier versions do not have it. */
    layout: Layout.optional(),
    /** Only if it was asked for, and never for speech. */
    heatmap: Heatmap.optional(),
    /** Only if it was asked for, by `verk detect adapt`. */
    evidence: Evidence.optional(),
  }),
);
export type Scored = z.infer<typeof Scored>;

/** The body of a 422: the file is at fault. */
export const Refused = later(() =>
  z.strictObject({
    code: z.enum(["INVALID_IMAGE", "UNSUPPORTED_FORMAT", "IMAGE_TOO_LARGE", "UNKNOWN_MODEL"]),
    error: z.string(),
  }),
);
export type Refused = z.infer<typeof Refused>;

/** Sent once over IPC: open HTTP on the socket when the models are loaded. */
export const ToDetector = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("open"),
      data_dir: z.string(),
      threads: z.int().positive(),
      /** Limit of one image. A larger one is rejected before it is decoded. */
      max_pixels: z.int().positive(),
      /** A directory with models that replace those inside the executable. */
      models_dir: z.string().optional(),
      /** A file of certificates in PEM. Without it no signer is trusted or distrusted. */
      trust_list: z.string().optional(),
      /** A file with an adaptation of the models. */
      adaptation: z.string().optional(),
      /** True if requests will ask for features. */
      features: z.boolean().optional(),
    }),
  ]),
);
export type ToDetector = z.infer<typeof ToDetector>;

export const FromDetector = later(() =>
  fromWorker([
    /** HTTP is open on the socket. `versions` lists the models that could be loaded. */
    z.strictObject({ type: z.literal("opened"), versions: z.partialRecord(ModelName, z.string()) }),
  ]),
);
export type FromDetector = z.infer<typeof FromDetector>;
