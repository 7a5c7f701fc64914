"""Models by family, read from checkpoints, and text generated with them."""

from ..base.public_names import public_names as _public_names
from .bert import Bert as Bert
from .bert import BertClassifier as BertClassifier
from .bert import Roberta as Roberta
from .bert import RobertaClassifier as RobertaClassifier
from .cache import KeyValueCache as KeyValueCache
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import open_checkpoint as open_checkpoint
from .clip import CLIP as CLIP
from .config import ModelConfig as ModelConfig
from .dinov2 import Dinov2 as Dinov2
from .dinov2 import Dinov2Classifier as Dinov2Classifier
from .dinov2 import Dinov2Registers as Dinov2Registers
from .distilbert import DistilBert as DistilBert
from .distilbert import DistilBertClassifier as DistilBertClassifier
from .engine import Engine as Engine
from .engine import Generation as Generation
from .gemma import Gemma as Gemma
from .generation import generate as generate
from .generation import generate_stream as generate_stream
from .gguf_file import GGUFFile as GGUFFile
from .gguf_file import read_gguf as read_gguf
from .gguf_model import save_gguf as save_gguf
from .gpt2 import GPT2 as GPT2
from .images import ImageProcessor as ImageProcessor
from .initial import initialize as initialize
from .llama import Llama as Llama
from .loading import load as load
from .mpnet import MPNet as MPNet
from .mpnet import MPNetClassifier as MPNetClassifier
from .next_token import loss as loss
from .packing import Documents as Documents
from .packing import PackedRows as PackedRows
from .packing import pack as pack
from .paged_cache import PagedCache as PagedCache
from .phi import Phi as Phi
from .phi3 import Phi3 as Phi3
from .qwen import Qwen as Qwen
from .resnet import ResNet as ResNet
from .resnet import ResNetClassifier as ResNetClassifier
from .saving import save as save
from .sentence import SentenceEncoder as SentenceEncoder
from .sentence import embed as embed
from .speech import SpeechProcessor as SpeechProcessor
from .tokenizer import Tokenizer as Tokenizer
from .tokenizer import TokenStream as TokenStream
from .vit import ViT as ViT
from .vit import ViTClassifier as ViTClassifier
from .whisper import Whisper as Whisper
from .whisper import transcribe as transcribe

__all__ = [
    "CLIP",
    "GPT2",
    "Bert",
    "BertClassifier",
    "Checkpoint",
    "Dinov2",
    "Dinov2Classifier",
    "Dinov2Registers",
    "DistilBert",
    "DistilBertClassifier",
    "Documents",
    "Engine",
    "GGUFFile",
    "Gemma",
    "Generation",
    "ImageProcessor",
    "KeyValueCache",
    "Llama",
    "MPNet",
    "MPNetClassifier",
    "ModelConfig",
    "PackedRows",
    "PagedCache",
    "Phi",
    "Phi3",
    "Qwen",
    "ResNet",
    "ResNetClassifier",
    "Roberta",
    "RobertaClassifier",
    "SentenceEncoder",
    "SpeechProcessor",
    "TokenStream",
    "Tokenizer",
    "ViT",
    "ViTClassifier",
    "Whisper",
    "embed",
    "generate",
    "generate_stream",
    "initialize",
    "load",
    "loss",
    "open_checkpoint",
    "pack",
    "read_gguf",
    "save",
    "save_gguf",
    "transcribe",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
