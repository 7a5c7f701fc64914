"""`vkmodels`: models of folders and GGUF files on the command line.

    vkmodels generate FOLDER --prompt "The sky is" --tokens 64
    vkmodels chat model.gguf --system "Answer briefly."
    vkmodels embed FOLDER --text "A text" --json
    vkmodels bench --shape llama-8b --format q4_k
    vkmodels serve FOLDER --port 8000
    vkmodels quantize FOLDER small.gguf --format q4_k
    vkmodels finetune FOLDER --data texts.jsonl --out adapter

A subcommand is a module with `HELP`, `add_arguments` and `run`.
"""
