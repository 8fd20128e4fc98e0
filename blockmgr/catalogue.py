"""The published traces that this project knows, and whose they are.

None of them is part of this project. What `profiles/` holds was computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """A published trace that this project knows.

    `file` is its name in the data folder. `sha256` and `size` (bytes) are those of the
    **unpacked** file, so they don't depend on who compressed it. `address` is where
    `make data` gets it, or None if its authors don't publish it in this form.
    """

    name: str
    file: str
    what: str
    origin: str
    licence: str
    sha256: str
    size: int
    address: str | None = None


def _github(repository: str, commit: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


_MOONCAKE = ("kvcache-ai/Mooncake", "3b5a594133958449a1feaf1c9e0fc1b553e34a28")
_AZURE = ("Azure/AzurePublicDataset", "b469a113cedca53ddc3bdea71a143dc4b7d8700c")
_AZURE_CITE = "CC BY 4.0, cite Patel et al., Splitwise, ISCA 2024"

TRACES: dict[str, Trace] = {
    trace.name: trace
    for trace in (
        Trace(
            "mooncake_conversation",
            "mooncake_conversation.jsonl.gz",
            "12,031 requests of a chat service, with shared prefixes",
            "kvcache-ai/Mooncake, FAST25-release/traces/conversation_trace.jsonl",
            "Apache-2.0",
            "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
            3_029_533,
            _github(*_MOONCAKE, "FAST25-release/traces/conversation_trace.jsonl"),
        ),
        Trace(
            "mooncake_synthetic",
            "mooncake_synthetic.jsonl.gz",
            "3,993 requests mixed from three public data sets, with shared prefixes",
            "kvcache-ai/Mooncake, FAST25-release/traces/synthetic_trace.jsonl",
            "Apache-2.0",
            "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
            1_136_313,
            _github(*_MOONCAKE, "FAST25-release/traces/synthetic_trace.jsonl"),
        ),
        Trace(
            "azure2023_conv",
            "azure2023_conv.csv.gz",
            "19,366 requests of a chat service in one hour, lengths only",
            "Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_conv.csv",
            _AZURE_CITE,
            "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
            719_188,
            _github(*_AZURE, "data/AzureLLMInferenceTrace_conv.csv"),
        ),
        Trace(
            "azure2023_code",
            "azure2023_code.csv.gz",
            "8,819 requests of a code assistant in one hour, lengths only",
            "Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_code.csv",
            _AZURE_CITE,
            "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
            320_117,
            _github(*_AZURE, "data/AzureLLMInferenceTrace_code.csv"),
        ),
        Trace(
            "sharegpt_turns",
            "sharegpt_turns.csv.gz",
            "30,731 turns of 5,678 ShareGPT conversations, lengths only",
            "microsoft/sarathi-serve@72339db5, data/processed_traces/"
            "sharegpt_8k_filtered_stats_llama2_tokenizer.csv; conversations inferred",
            "Apache-2.0",
            "6358f12826ef71e6661587e7533805110e3fb000bbac8c257ae72f253e8915a8",
            471_325,
        ),
        Trace(
            "alpaca_lengths",
            "alpaca_lengths.csv.gz",
            "1,801 instructions of Stanford Alpaca, lengths only",
            "Stanford Alpaca (a subset), counted with GPT-2's tokenizer",
            "text CC BY-NC 4.0; only lengths are kept",
            "90d6cda2b8cb9237b1555dc919a0bedca8c4f4fed897326ee97bf8934dd67000",
            10_432,
        ),
        Trace(
            "claude_code_traces",
            "claude_code_traces.jsonl.gz",
            "1,474 requests of 40 sessions of a coding agent, with shared prefixes",
            "callanjfox/kv-cache-tester@94f6046d, traces/ (40 of 739)",
            "Apache-2.0",
            "56a5f11dd6e9c8855c495c478beff9dd26706f7172dd280dd83518df6ff533a3",
            693_435,
        ),
        Trace(
            "gsm8k_shots8",
            "gsm8k_shots8.jsonl.gz",
            "the first 8 problems of GSM8K's training set, with worked answers",
            "openai/grade-school-math@3101c7d5, grade_school_math/data/train.jsonl",
            "MIT, (c) 2021 OpenAI",
            "3f7ee50a459a52ed756683a31829ee9feb74db2b71c5638a09bf31139b8fee14",
            3_894,
        ),
        Trace(
            "gsm8k_test",
            "gsm8k_test.jsonl.gz",
            "the 1,319 problems of GSM8K's test set, with worked answers",
            "openai/grade-school-math@3101c7d5, grade_school_math/data/test.jsonl",
            "MIT, (c) 2021 OpenAI",
            "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
            749_738,
        ),
    )
}
