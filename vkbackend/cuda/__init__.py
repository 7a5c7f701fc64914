"""CUDA's driver library, where there is one: memory that cards of one machine share."""

from vkbackend.cuda.driver import CudaDriver as CudaDriver
from vkbackend.cuda.driver import load as load
from vkbackend.cuda.memory import CudaBlock as CudaBlock
from vkbackend.cuda.memory import CudaCopy as CudaCopy
from vkbackend.cuda.memory import CudaMemory as CudaMemory
from vkbackend.cuda.memory import device_of as device_of
from vkbackend.cuda.memory import is_nvidia as is_nvidia
from vkbackend.cuda.memory import obstacle_among as obstacle_among
from vkbackend.cuda.memory import why_not as why_not
from vkbackend.cuda.pool import CudaPool as CudaPool
from vkbackend.cuda.pool import shared_pool as shared_pool
